"""Writes the measured figures: a page in Markdown with pictures, and files in JSON."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks import peers
from tests.benchmarks.contests import OURS, Figures, Unit
from tests.benchmarks.goals import percentile
from tests.benchmarks.groups import GROUPS
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.contests import Absent

PAGE: Final = CHECKOUT / "docs" / "performance.md"
FIGURES: Final = CHECKOUT / ".benchmarks" / "figures.json"
GROWTH: Final = "Growth"
PICTURE: Final = "performance-"
"""What the names of the page's pictures begin with."""
_PICTURES: Final = "pictures"
_MEASURED: Final = ("sbx_jupyter", "tests/benchmarks")
_PEERS: Final = "What each peer gives for it"
_NONE: Final = "—"

_INTRODUCTION: Final = """\
# Performance

This page is written by `make bench`, which measures the engine beside other ways to do the same on
the machine that it runs on. Ours and the peers take turns in one run, in shuffled order, after
rounds that do not count. All protections are on. A ratio is the median of ours over the median of
the peer: below 1, ours is faster. Behind it is the interval that holds it with 95 % confidence.
Times on a busy machine are longer for all; compare the ratios. What was tried to make them smaller
is in [experiments](performance-experiments.md), and [performance.json](performance.json) has the
medians, p99, ratios and goals for programs to read.

Without arguments it takes about two minutes and measures {default}.
`make bench ARGS="--group kernels"` measures another group, `--group all` every one, `--growth` the
curves, `--against REF` this code beside an earlier commit, and `--profile ROW` draws where the time
of a row goes. Each run rewrites the sections that it measured.
"""


@dataclass(frozen=True, slots=True)
class Written:
    """What a run measured, as it is written."""

    sections: dict[str, str] = field(default_factory=dict[str, str])
    """By title, in Markdown."""
    pictures: dict[str, str] = field(default_factory=dict[str, str])
    """By file name, in SVG."""
    found: dict[str, Any] = field(default_factory=dict[str, Any])
    """By name of the group, in JSON."""

    def add_picture(self, name: str, description: str, picture: str) -> str:
        """Add a picture of the page; returns what shows it in Markdown."""
        file = f"{PICTURE}{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.svg"
        self.pictures[file] = picture
        return f"![{description}]({_PICTURES}/{file})"


def write(written: Written, page: Path, figures: Path) -> None:
    """Write what was measured; sections, pictures and figures of other groups stay as they were.

    ``figures`` gets the values of every round. Beside the page is a file without them.
    """
    folder = page.parent / _PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text(to_page(written.sections, page.read_text() if page.exists() else ""))
    for name, picture in written.pictures.items():
        folder.joinpath(name).write_text(picture)
    _merge(figures, written.found)
    _merge(page.with_suffix(".json"), _short(written.found))
    print(f"\nwrote {page} and {figures}", flush=True)


def _merge(path: Path, found: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | dict(found), indent=1, ensure_ascii=False) + "\n")


def _short(found: Any) -> Any:
    """The figures without the values of each round, with four digits that count."""
    if isinstance(found, dict):
        return {name: _short(value) for name, value in found.items() if name != "values"}
    if isinstance(found, list):
        return [_short(each) for each in found]
    return float(f"{found:.4g}") if isinstance(found, float) else found


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
        "commit": _commit(),
    }


def _commit() -> str:
    """The commit that is measured; empty where the files are not of a repository."""

    def git(*arguments: str) -> str:
        try:
            ran = subprocess.run(
                ["git", *arguments], cwd=CHECKOUT, check=True, capture_output=True, text=True
            )
        except (OSError, subprocess.CalledProcessError):
            return ""
        return ran.stdout.strip()

    changed = git("status", "--porcelain", "--", *_MEASURED)
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def to_section(
    machine: Mapping[str, str],
    missing: Mapping[str, str],
    measured: Sequence[Figures],
    absent: Sequence[Absent] = (),
    picture: str = "",
) -> str:
    """The figures of a group, with what they depend on and why goals are missed."""
    lines = [
        f"{where(machine)}{_absent(missing)}",
        "",
        "| What | Rounds | Ours, median (p99) | Peer | Its median (p99) | Ratio | Goal |",
        "|---|---|---|---|---|---|---|",
        *(line for figures in measured for line in table_lines(figures)),
        *(absent_line(each) for each in absent),
    ]
    if picture:
        lines += ["", picture]
    missed = [figures for figures in measured if figures.missed]
    if missed:
        lines += ["", "Goals that are missed, and what takes the time:", ""]
        lines += [_reason(figures) for figures in missed]
    return "\n".join(lines)


def where(machine: Mapping[str, str]) -> str:
    """A sentence on the machine, how busy it was, and what was measured."""
    commit = f", commit {machine['commit']}" if machine["commit"] else ""
    return (
        f"Measured on {machine['date']}: {machine['processor']}, Linux {machine['kernel']}, Python"
        f" {machine['python']}, load average {machine['load']}{commit}."
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
            f"{figures.rounds}",
            show(figures.values[OURS], figures.row.unit),
            peer,
            theirs,
            ratio,
            "; ".join(verdicts) or _NONE,
        )
        lines.append(f"| {' | '.join(columns)} |")
    return lines


def absent_line(absent: Absent) -> str:
    """The line of the table for a row that this machine cannot measure."""
    goals = "; ".join(f"{goal.text}: not measured" for goal in absent.row.goals) or _NONE
    columns = (absent.row.name, _NONE, f"not measured here: {absent.reason}", *(_NONE,) * 3, goals)
    return f"| {' | '.join(columns)} |"


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
