"""Lists: filters, order, cursors and totals."""

from __future__ import annotations

import base64
import datetime as dt
import random

import pytest

from sbx_jupyter.engine.pages import cut, parse_cursor
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.sandboxes.listing import SandboxFilter, select
from sbx_jupyter.engine.state.rows import SandboxRow
from sbx_jupyter.errors import InvalidArgumentError
from tests.engine.rows import START, sandbox_row


def ids(rows: list[SandboxRow]) -> list[str]:
    return [row.sandbox_id for row in rows]


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def all_pages(rows: list[SandboxRow], order: str, limit: int) -> list[str]:
    found: list[str] = []
    token = None
    while True:
        page = select(rows, SandboxFilter(order=order, limit=limit, next_token=token))  # type: ignore[arg-type]
        found += ids(page.sandboxes)
        token = page.next_token
        if token is None:
            return found


def test_the_newest_come_first_and_ties_go_by_id():
    rows = [
        sandbox_row("ib", started_at=at(1)),
        sandbox_row("ia", started_at=at(1)),
        sandbox_row("ic", started_at=at(2)),
    ]

    assert ids(select(rows, SandboxFilter()).sandboxes) == ["ic", "ia", "ib"]
    assert ids(select(rows, SandboxFilter(order="asc")).sandboxes) == ["ia", "ib", "ic"]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_give_every_sandbox_once_in_order(order: str, limit: int):
    rows = [sandbox_row(f"i{n:02}", started_at=at(n // 3)) for n in range(20)]
    random.Random(limit).shuffle(rows)

    found = all_pages(rows, order, limit)

    assert found == ids(select(rows, SandboxFilter(order=order, limit=100)).sandboxes)  # type: ignore[arg-type]
    assert len(set(found)) == 20


def test_sandboxes_that_end_between_pages_do_not_disturb_the_next():
    rows = [sandbox_row(f"i{n}", started_at=at(n)) for n in range(6)]
    first = select(rows, SandboxFilter(limit=2))
    assert ids(first.sandboxes) == ["i5", "i4"]

    rows = [row for row in rows if row.sandbox_id not in ("i4", "i3")]

    second = select(rows, SandboxFilter(limit=2, next_token=first.next_token))
    assert ids(second.sandboxes) == ["i2", "i1"]


def test_metadata_must_match_in_all_pairs():
    rows = [
        sandbox_row("ia", metadata={"k": "v", "x": "y"}),
        sandbox_row("ib", metadata={"k": "v"}),
        sandbox_row("ic", metadata={"k": "other", "x": "y"}),
    ]

    assert ids(select(rows, SandboxFilter(metadata={"k": "v", "x": "y"})).sandboxes) == ["ia"]
    assert len(select(rows, SandboxFilter(metadata={"k": "v"})).sandboxes) == 2


def test_states_are_those_that_clients_know():
    rows = [sandbox_row(f"i{state.value}", state=state) for state in State]

    running = select(rows, SandboxFilter(states=frozenset({"running"})))
    paused = select(rows, SandboxFilter(states=frozenset({"paused"})))

    assert set(ids(running.sandboxes)) == {"irunning", "isnapshotting"}
    assert set(ids(paused.sandboxes)) == {"ipaused", "ipausing", "iresuming"}
    assert running.total_running == 2


def test_started_after_is_inclusive_to_the_microsecond():
    rows = [sandbox_row("ia", started_at=START)]

    assert select(rows, SandboxFilter(started_after=START)).sandboxes
    later = START + dt.timedelta(microseconds=1)
    assert not select(rows, SandboxFilter(started_after=later)).sandboxes


def test_the_total_counts_all_pages():
    rows = [sandbox_row(f"i{n}") for n in range(5)] + [sandbox_row("ip", state=State.PAUSED)]

    assert select(rows, SandboxFilter(limit=1)).total_running == 5


def test_a_cursor_of_the_other_order_is_refused():
    rows = [sandbox_row(f"i{n}", started_at=at(n)) for n in range(3)]
    token = select(rows, SandboxFilter(limit=1)).next_token

    with pytest.raises(InvalidArgumentError, match="Invalid next token"):
        select(rows, SandboxFilter(order="asc", next_token=token))


@pytest.mark.parametrize("token", ["x", "!!", "ä", "AAAA", "2026__ia", "a" * 10_000])
def test_a_bad_cursor_is_refused(token: str):
    with pytest.raises(InvalidArgumentError, match="Invalid next token"):
        parse_cursor(token, "desc")


def test_a_cursor_without_a_zone_is_refused():
    token = base64.urlsafe_b64encode(b"2026-01-01T00:00:00__ia").decode()

    with pytest.raises(InvalidArgumentError, match="Invalid next token"):
        parse_cursor(token, "desc")


@pytest.mark.parametrize("limit", [0, -1, 101])
def test_a_page_size_out_of_range_is_refused(limit: int):
    with pytest.raises(InvalidArgumentError, match="limit"):
        select([], SandboxFilter(limit=limit))


def test_version_one_lists_without_pages():
    rows = [sandbox_row(f"i{n}") for n in range(150)]

    page = select(rows, SandboxFilter(limit=None))

    assert len(page.sandboxes) == 150
    assert page.next_token is None


def test_names_with_two_underscores_are_paged():
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    names = ["local/a__b:default", "local/c__d:x__asc", "local/e:default"]

    token, found = None, list[str]()
    while token is not None or not found:
        page, token = cut(names, lambda name: (at, name), limit=1, token=token)
        found += page

    assert found == names
