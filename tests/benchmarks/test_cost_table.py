"""The table of costs: what a failure says, and what renewing it changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks import cost_table
from tests.benchmarks.cost_table import Limit

RECORDED = {
    "part": {"stat": {"system calls": 20, "system calls by name": {"read": 18, "write": 2}}},
    "other": {"stat": {"calls": 1}},
}
LIMITS = {"system calls": Limit(0.1)}


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    table = tmp_path / "costs.json"
    table.write_text(json.dumps(RECORDED))
    monkeypatch.setattr(cost_table, "FILE", table)
    monkeypatch.delenv("SBX_RENEW_COSTS", raising=False)
    return table


def _costs(reads: int) -> cost_table.Costs:
    by_name = {"read": reads, "write": 2}
    return {"stat": {"system calls": reads + 2, "system calls by name": by_name}}


def test_a_count_up_to_its_limit_passes() -> None:
    cost_table.check("part", _costs(20), LIMITS)
    cost_table.check("part", _costs(1), LIMITS)


def test_a_failure_says_what_grew_and_how_to_accept_it() -> None:
    with pytest.raises(AssertionError) as failure:
        cost_table.check("part", _costs(21), LIMITS)

    assert str(failure.value).splitlines() == [
        "What requests cost has grown (part):",
        "stat: system calls: 23, at most 22, 20 recorded; read 21 (18)",
        f"To accept it, as root: {cost_table.RENEW}",
    ]


def test_a_request_may_have_a_limit_of_its_own() -> None:
    cost_table.check("part", _costs(28), LIMITS | {"stat: system calls": Limit(0.5)})


def test_a_request_that_is_not_recorded_fails() -> None:
    with pytest.raises(AssertionError, match="not recorded"):
        cost_table.check("part", {**_costs(1), "new": {}}, LIMITS)


def test_what_was_recorded_elsewhere_is_not_known() -> None:
    assert cost_table.known("part")
    assert not cost_table.known("another Python")


def test_renewing_changes_one_part(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBX_RENEW_COSTS", "1")

    assert cost_table.known("another Python")
    cost_table.check("part", _costs(100), LIMITS)

    assert json.loads(table.read_text()) == RECORDED | {"part": _costs(100)}
