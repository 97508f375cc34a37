"""Writes the measured figures: a page in Markdown, a section for each group, and a JSON file."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks import peers
from tests.benchmarks.contests import OURS, Figures, Unit
from tests.benchmarks.goals import percentile
from tests.benchmarks.groups import GROUPS
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PAGE: Final = CHECKOUT / "docs" / "performance.md"
FIGURES: Final = CHECKOUT / ".benchmarks" / "figures.json"
GROWTH: Final = "Growth"
_PEERS: Final = "What each peer gives for it"
_NONE: Final = "—"

_INTRODUCTION: Final = """\
# Performance

This page is written by `make bench`, which measures the engine beside other ways to do the same on
the machine that it runs on. Ours and the peers take turns in one run, in shuffled order, after
rounds that do not count. All protections are on. A ratio is the median of ours over the median of
the peer: below 1, ours is faster. Behind it is the interval that holds it with 95 % confidence.
Times on a busy machine are longer for all; compare the ratios. What was tried to make them smaller
is in [experiments](performance-experiments.md).

Without arguments it takes about two minutes and measures {default}.
`make bench ARGS="--group kernels"` measures another group, `--group all` every one, `--growth` the
curves, `--against REF` this code beside an earlier commit, and `--profile ROW` draws where the time
of a row goes. Each run rewrites the sections that it measured.
"""


def write(sections: Mapping[str, str], found: Mapping[str, Any], page: Path, figures: Path) -> None:
    """Write sections of the page by title, and figures by name; others stay as they were."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(to_page(sections, page.read_text() if page.exists() else ""))
    figures.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(figures.read_text()) if figures.exists() else {}
    figures.write_text(json.dumps(known | dict(found), indent=1))
    print(f"\nwrote {page} and {figures}", flush=True)


def to_page(sections: Mapping[str, str], old: str) -> str:
    """The page with new sections; those of ``old`` that are not measured again stay."""
    titles = [group.title for group in GROUPS.values()] + [GROWTH]
    known = {title: text for title, text in sections_of(old).items() if title in titles}
    known |= sections
    written = [f"## {title}\n\n{known[title].strip()}\n" for title in titles if title in known]
    default = ", ".join(name for name, group in GROUPS.items() if group.is_default)
    first = _INTRODUCTION.format(default=default)
    return "\n".join([first, *written, f"## {_PEERS}\n\n{_peers()}"])


def sections_of(page: str) -> dict[str, str]:
    """The text below each heading of the second level."""
    parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _peers() -> str:
    rows = [peers.HEADINGS, ("---",) * len(peers.HEADINGS), *peers.PEERS]
    return "".join(f"| {' | '.join(columns)} |\n" for columns in rows)


def describe_machine(loads: Sequence[float]) -> dict[str, str]:
    """What the figures depend on."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "load": f"{min(loads):.1f} to {max(loads):.1f}",
    }


def to_section(
    machine: Mapping[str, str], missing: Mapping[str, str], measured: Sequence[Figures]
) -> str:
    """The figures of a group, with what they depend on and why goals are missed."""
    lines = [
        f"{where(machine)}{_absent(missing)}",
        "",
        "| What | Ours, median (p99) | Peer | Its median (p99) | Ratio | Goal |",
        "|---|---|---|---|---|---|",
        *(line for figures in measured for line in table_lines(figures)),
    ]
    missed = [figures for figures in measured if figures.missed]
    if missed:
        lines += ["", "Goals that are missed, and what takes the time:", ""]
        lines += [_reason(figures) for figures in missed]
    return "\n".join(lines)


def where(machine: Mapping[str, str]) -> str:
    """A sentence on the machine and how busy it was."""
    return (
        f"Measured on {machine['date']}: {machine['processor']}, Linux {machine['kernel']}, Python"
        f" {machine['python']}, load average {machine['load']}."
    )


def _absent(missing: Mapping[str, str]) -> str:
    if not missing:
        return ""
    named = "; ".join(f"{name} ({reason})" for name, reason in missing.items())
    return f" Not measured here: {named}."


def _reason(figures: Figures) -> str:
    goals = ", ".join(goal.text for goal in figures.missed)
    reason = figures.row.reason or "not found yet"
    return f"- {figures.row.name} ({goals}): {reason}."


def table_lines(figures: Figures) -> list[str]:
    """One line of the table for each peer, or one alone."""
    lines: list[str] = []
    for number, peer in enumerate(figures.peers or [_NONE]):
        goals = figures.goals("") if number == 0 else []
        ratio = _NONE
        theirs = _NONE
        if peer != _NONE:
            goals = figures.goals(peer) + goals
            value, low, high = figures.ratio(peer)
            ratio = f"**{value:.2f}** ({low:.2f} to {high:.2f})"
            theirs = show(figures.values[peer], figures.row.unit)
        verdicts = (f"{g.text}: {'met' if figures.is_met(g) else 'missed'}" for g in goals)
        columns = (
            figures.row.name,
            show(figures.values[OURS], figures.row.unit),
            peer,
            theirs,
            ratio,
            "; ".join(verdicts) or _NONE,
        )
        lines.append(f"| {' | '.join(columns)} |")
    return lines


def show(values: Sequence[float], unit: Unit) -> str:
    """The median, and the p99 where there are several values."""
    middle = f"{statistics.median(values) * unit.factor:,.2f} {unit.name}"
    if len(values) == 1:
        return middle
    return f"{middle} ({percentile(values, 0.99) * unit.factor:,.2f})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
