"""Measures groups of rows beside their peers, each group on an engine of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tests.benchmarks import plots, report
from tests.benchmarks.contests import Absent, Figures, measure
from tests.benchmarks.groups import GROUPS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.benchmarks.groups import Group


def run(names: Sequence[str], share: float, page: Path, figures: Path) -> None:
    """Measure the groups with ``share`` of their rounds; write their sections and figures."""
    written = report.Written()
    for name in names:
        group = GROUPS[name]
        loads = [os.getloadavg()[0]]
        measured, absent = measure_group(group, share, loads)
        machine = report.describe_machine(loads)
        picture = plots.ratios(measured)
        link = ""
        if picture:
            link = written.add_picture(name, f"Ratios: {group.title}", picture)
        written.sections[group.title] = report.to_section(
            machine, group.missing(), measured, absent, link
        )
        rows: list[dict[str, Any]] = [each.to_json() for each in (*measured, *absent)]
        written.found[name] = {"machine": machine, "rows": rows}
    report.write(written, page, figures)


def measure_group(
    group: Group, share: float, loads: list[float]
) -> tuple[list[Figures], list[Absent]]:
    """Measure what this machine can; ``loads`` gets the load average after each row."""
    absent = [Absent(row, why) for row in group.rows if (why := row.unavailable())]
    left_out = {row.name for row, _ in absent}
    rows = [row for row in group.rows if row.name not in left_out]
    measured: list[Figures] = []
    if rows:
        with group.engine(*group.options) as engine:
            for row in rows:
                measured.append(measure(row, engine, share=share))
                loads.append(os.getloadavg()[0])
                print("\n".join(report.table_lines(measured[-1])), flush=True)
    for each in absent:
        print(report.absent_line(each), flush=True)
    return measured, absent
