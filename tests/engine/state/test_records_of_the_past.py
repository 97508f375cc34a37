"""Logs and metrics: asked for in every way, bounded, kept."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.history import History
from sbx_jupyter.engine.state.logs import Journal, LogFilter
from sbx_jupyter.engine.state.rows import LogRow
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.platform import SandboxMetric

SANDBOX = "i" + "a" * 20
OTHER = "i" + "b" * 20
START = 1_700_000_000


def metric(at: int) -> SandboxMetric:
    return SandboxMetric(
        timestamp=dt.datetime.fromtimestamp(at, dt.UTC),
        timestamp_unix=at,
        cpu_count=2,
        cpu_used_pct=12.5,
        mem_used=1,
        mem_total=2,
        mem_cache=3,
        disk_used=4,
        disk_total=5,
    )


def filled(directory: Path, count: int) -> History:
    history = History(directory)
    history.load(set())
    for number in range(count):
        history.add(SANDBOX, metric(START + 5 * number))
    history.write(history.take_unwritten())
    return history


def test_readings_are_kept_over_restarts(tmp_path: Path):
    before = filled(tmp_path, 10).between(SANDBOX)

    again = History(tmp_path)
    again.load({SANDBOX})

    assert again.between(SANDBOX) == before
    assert len(before) == 10
    assert before[0] == metric(START)


def test_a_torn_reading_at_the_end_is_dropped(tmp_path: Path):
    filled(tmp_path, 3)
    with (tmp_path / SANDBOX).open("ab") as file:
        file.write(b"torn")

    again = History(tmp_path)
    again.load({SANDBOX})
    again.add(SANDBOX, metric(START + 100))
    again.write(again.take_unwritten())
    third = History(tmp_path)
    third.load({SANDBOX})

    assert [m.timestamp_unix - START for m in third.between(SANDBOX)] == [0, 5, 10, 100]


def test_a_range_is_inclusive_at_both_ends(tmp_path: Path):
    history = filled(tmp_path, 10)

    found = history.between(SANDBOX, START + 10, START + 20)

    assert [m.timestamp_unix - START for m in found] == [10, 15, 20]


def test_start_after_end_is_refused(tmp_path: Path):
    with pytest.raises(InvalidArgumentError, match="start"):
        filled(tmp_path, 1).between(SANDBOX, 2, 1)


def test_the_file_and_the_memory_are_bounded(tmp_path: Path):
    history = filled(tmp_path, 17280 + 1024 + 1)

    assert len(history.between(SANDBOX)) == 17280
    assert (tmp_path / SANDBOX).stat().st_size == 17280 * 64
    latest = history.latest(SANDBOX)
    assert latest is not None
    assert latest.timestamp_unix == START + 5 * (17280 + 1024)


def test_files_of_unknown_sandboxes_are_removed(tmp_path: Path):
    filled(tmp_path, 1)

    History(tmp_path).load({OTHER})

    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_sandbox_leaves_nothing(tmp_path: Path):
    history = filled(tmp_path, 5)

    history.forget(SANDBOX)
    history.write(history.take_unwritten())

    assert history.between(SANDBOX) == []
    assert list(tmp_path.iterdir()) == []


def journal(*rows: tuple[float, str, str]) -> Journal:
    kept = Journal()
    for at, level, message in rows:
        timestamp = dt.datetime.fromtimestamp(START + at, dt.UTC)
        kept.add(LogRow(sandbox_id=SANDBOX, timestamp=timestamp, level=level, message=message))  # type: ignore[arg-type]
    return kept


def messages(kept: Journal, **wanted: object) -> list[str]:
    return [row.message for row in kept.select(SANDBOX, LogFilter(**wanted))]  # type: ignore[arg-type]


def test_entries_come_in_the_direction_that_is_asked_for():
    kept = journal((0, "info", "a"), (1, "info", "b"), (2, "info", "c"))

    assert messages(kept, direction="forward") == ["a", "b", "c"]
    assert messages(kept) == ["c", "b", "a"]
    assert messages(kept, limit=1) == ["c"]
    assert messages(kept, direction="forward", cursor_ms=(START + 1) * 1000) == ["b", "c"]
    assert messages(kept, cursor_ms=(START + 1) * 1000) == ["b", "a"]


def test_entries_are_chosen_by_level_and_text():
    kept = journal((0, "debug", "One"), (1, "warn", "two"), (2, "error", "One more"))

    assert messages(kept, level="warn", direction="forward") == ["two", "One more"]
    assert messages(kept, search="one", direction="forward") == ["One", "One more"]


def test_a_window_is_seven_days_at_most():
    kept = journal((0, "info", "old"), (8 * 86400, "info", "new"))

    assert messages(kept, cursor_ms=(START + 8 * 86400) * 1000) == ["new"]
    assert messages(kept, cursor_ms=START * 1000, direction="forward") == ["old"]


def test_the_journal_is_bounded():
    kept = Journal()
    for number in range(logs.MAX_PER_SANDBOX + 10):
        kept.add(logs.entry(SANDBOX, "info", str(number)))
    for number in range(logs.MAX_SANDBOXES):
        kept.add(logs.entry(f"ib{number}", "info", "x"))

    assert SANDBOX not in kept
    assert "ib0" in kept


@pytest.mark.parametrize("wanted", [{"limit": 1001}, {"limit": -1}, {"search": "x" * 257}])
def test_too_much_is_refused(wanted: dict[str, object]):
    with pytest.raises(InvalidArgumentError):
        Journal().select(SANDBOX, LogFilter(**wanted))  # type: ignore[arg-type]
