"""Measures groups of rows beside their peers, each group on an engine of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tests.benchmarks import report
from tests.benchmarks.contests import measure
from tests.benchmarks.groups import GROUPS
from tests.benchmarks.harness import running_engine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.benchmarks.contests import Figures


def run(names: Sequence[str], share: float, page: Path, figures: Path) -> None:
    """Measure the groups with ``share`` of their rounds; write their sections and figures."""
    sections: dict[str, str] = {}
    found: dict[str, Any] = {}
    for name in names:
        group = GROUPS[name]
        loads = [os.getloadavg()[0]]
        measured: list[Figures] = []
        with running_engine(*group.options) as engine:
            for row in group.rows:
                measured.append(measure(row, engine, share=share))
                loads.append(os.getloadavg()[0])
                print("\n".join(report.table_lines(measured[-1])), flush=True)
        machine = report.describe_machine(loads)
        sections[group.title] = report.to_section(machine, group.missing(), measured)
        rows = [each.to_json() for each in measured]
        found[name] = {"machine": machine, "rows": rows}
    report.write(sections, found, page, figures)
