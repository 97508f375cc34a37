"""Tests of ``tests.waiting``."""

from __future__ import annotations

import os

import pytest

from tests.waiting import Busyness, async_until, busyness, until, until_equal, until_steady


def test_it_gives_back_the_first_true_answer() -> None:
    answers = iter([0, "", None, "here", "later"])

    assert until(lambda: next(answers), step=0) == "here"


def test_it_fails_with_the_message_and_the_last_answer() -> None:
    with pytest.raises(AssertionError, match=r"no page within 0\.01 s; the last answer was \[\]"):
        until(list, timeout=0.01, message="no page")


def test_a_value_that_never_comes_fails_with_the_last_one_read() -> None:
    readings = iter([1, 2, 3])
    until_equal(lambda: next(readings), 3, step=0)

    with pytest.raises(AssertionError, match=r"the last answer was \{'mounts': 2\}"):
        until_equal(lambda: {"mounts": 2}, {}, timeout=0.01)


def test_a_number_is_steady_when_it_came_five_times_and_is_not_0() -> None:
    readings = iter([0, 0, 0, 0, 0, 1, 3, 3, 3, 3, 3, 4])

    assert until_steady(lambda: next(readings), step=0) == 3
    assert next(readings) == 4


async def test_an_asynchronous_condition_is_awaited() -> None:
    answers = iter([False, False, 7])

    async def ask() -> int:
        return next(answers)

    assert await async_until(ask) == 7


async def test_a_condition_on_the_loop_fails_alike() -> None:
    with pytest.raises(AssertionError, match="the last answer was None"):
        await async_until(lambda: None, timeout=0.01)


def look(patch: pytest.MonkeyPatch, *, load: float, running: int | None) -> None:
    """Make the machine look like one with two processors."""
    told = "cpu  1 2 3\nctxt 7\n" + ("" if running is None else f"procs_running {running}\n")
    patch.setattr(os, "cpu_count", lambda: 2)
    patch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    patch.setattr("tests.waiting.Path.read_text", lambda _: told)


@pytest.mark.parametrize(
    ("load", "running", "busy"), [(0.1, 1, 1), (0.1, 8, 4), (8.0, 1, 4), (6.0, None, 3)]
)
def test_a_machine_is_as_busy_as_it_is_or_lately_was(
    monkeypatch: pytest.MonkeyPatch, load: float, running: int | None, busy: float
) -> None:
    look(monkeypatch, load=load, running=running)

    assert busyness() == busy


@pytest.mark.parametrize(("before", "after"), [(2, 10), (10, 2)])
def test_what_runs_before_or_after_counts_for_the_time_between(
    monkeypatch: pytest.MonkeyPatch, before: int, after: int
) -> None:
    look(monkeypatch, load=0.0, running=before)
    busy = Busyness()
    look(monkeypatch, load=0.0, running=after)

    assert busy.most() == 5
