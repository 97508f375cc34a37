"""Prints which attacks were made in which tier, at the end of the run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.security import exhaustion, flooding, interface, keeper_attacks, ports
from tests.security.attacks import SCRIPTS, TIERS

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    outcomes = {
        report.nodeid.partition("test_an_attack_fails[")[2][:-1]: report.outcome
        for found in terminalreporter.stats.values()
        for report in found
        if "test_an_attack_fails[" in getattr(report, "nodeid", "") and hasattr(report, "outcome")
    }
    if not outcomes:
        return
    terminalreporter.section("attacks by tier (+ held, ! not held, s not tried, . does not apply)")
    signs = {"passed": "+", "failed": "!", "skipped": "s"}
    groups: Counter[str] = Counter()
    for attack in (
        *SCRIPTS,
        *keeper_attacks.ATTACKS,
        *interface.ATTACKS,
        *ports.ATTACKS,
        *exhaustion.ATTACKS,
        *flooding.ATTACKS,
    ):
        row = [signs.get(outcomes.get(f"{tier}: {attack.name}", ""), ".") for tier in TIERS]
        groups[attack.group] += 1
        terminalreporter.write_line(f"{' '.join(row)}  {attack.group}: {attack.name}")
    terminalreporter.write_line(f"tiers: {', '.join(TIERS)}")
    for tier in TIERS:
        held = sum(o == "passed" for name, o in outcomes.items() if name.startswith(f"{tier}: "))
        terminalreporter.write_line(f"{tier}: {held} attacks held")
