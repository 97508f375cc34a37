"""Compares the engine with other ways to do the same, and writes the figures as a report."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks import rows
from tests.benchmarks.contests import OURS, Figures, measure
from tests.benchmarks.harness import percentile
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

REPORT: Final = CHECKOUT / "docs" / "performance.md"
FIGURES: Final = CHECKOUT / ".benchmarks" / "figures.json"

_INTRODUCTION: Final = """\
# Performance

This page is written by `make bench`, which measures the engine beside other ways to do the same on
the machine that it runs on. Ours and the peers take turns in one run, in shuffled order, after
three rounds that do not count. All protections are on. A ratio is the median of ours over the
median of the peer: below 1, ours is faster. Behind it is the interval that holds it with 95 %
confidence. Times on a busy machine are longer for all; compare the ratios.
"""

_PEERS: Final = (
    (
        "`bwrap`",
        "Starts `/bin/true` in new namespaces on the host's read-only files.",
        "Writable files, limits, a system call filter, an interface for other programs.",
    ),
    (
        "`unshare`",
        "Starts `/bin/true` in new namespaces.",
        "As `bwrap`; the host's files stay writable.",
    ),
    ("`subprocess`", "Starts a program with Python's `subprocess.run`.", "Any isolation."),
    (
        "`scandir` and `stat`",
        "Lists a directory of the host in Python.",
        "Any isolation, names of owners, JSON, HTTP.",
    ),
    (
        "`tornado`",
        "Serves and takes files, in the same web framework as the engine's.",
        "Tokens, owners of files, paths that hostile links cannot lead astray.",
    ),
    (
        "`terminado`",
        "Serves the terminals of Jupyter.",
        "Any isolation, replay without loss, back-pressure.",
    ),
)
"""What each peer does for its time, and what it leaves out."""


def run(engine: EngineClient, share: float, report: Path, figures: Path) -> None:
    """Measure all rows with ``share`` of their rounds; write a report and a JSON file."""
    loads = [os.getloadavg()[0]]
    measured: list[Figures] = []
    for row in rows.ROWS:
        measured.append(measure(row, engine, share=share))
        loads.append(os.getloadavg()[0])
        print("\n".join(_lines(measured[-1])), flush=True)
    machine = describe_machine(loads)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(to_markdown(machine, measured))
    figures.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine, "rows": [figure.to_json() for figure in measured]}
    figures.write_text(json.dumps(found, indent=1))
    print(f"\nwrote {report} and {figures}", flush=True)


def describe_machine(loads: list[float]) -> dict[str, str]:
    """What the figures depend on."""
    return {
        "Date": time.strftime("%Y-%m-%d", time.gmtime()),
        "Processor": f"{_processor()}, {os.cpu_count()} cores",
        "Kernel": platform.release().partition("-")[0],
        "Python": platform.python_version(),
        "Load average while measuring": f"{min(loads):.1f} to {max(loads):.1f}",
        "Peers that this machine does not have": ", ".join(rows.not_installed()) or "none",
    }


def to_markdown(machine: dict[str, str], measured: list[Figures]) -> str:
    """The whole report."""
    facts = "\n".join(f"| {name} | {value} |" for name, value in machine.items())
    table = "\n".join(line for figures in measured for line in _lines(figures))
    peers = "\n".join(f"| {' | '.join(columns)} |" for columns in _PEERS)
    return (
        f"{_INTRODUCTION}\n"
        f"| Machine | |\n|---|---|\n{facts}\n\n"
        "| What | Ours, median (p99) | Peer | Its median (p99) | Ratio | Goal |\n"
        f"|---|---|---|---|---|---|\n{table}\n\n"
        "## What the peers do and leave out\n\n"
        f"| Peer | Does | Leaves out |\n|---|---|---|\n{peers}\n"
    )


def _lines(figures: Figures) -> list[str]:
    """One line of the table for each peer."""
    lines: list[str] = []
    for peer in figures.peers:
        value, low, high = figures.ratio(peer)
        columns = (
            figures.row.name,
            _times(figures.seconds[OURS]),
            peer,
            _times(figures.seconds[peer]),
            f"**{value:.2f}** ({low:.2f} to {high:.2f})",
            figures.row.goal,
        )
        lines.append(f"| {' | '.join(columns)} |")
    return lines


def _times(seconds: list[float]) -> str:
    middle, late = statistics.median(seconds) * 1e3, percentile(seconds, 0.99) * 1e3
    return f"{middle:.2f} ms ({late:.2f})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
