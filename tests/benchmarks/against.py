"""Measures this code beside an earlier commit: two engines that take turns in one run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.benchmarks import report
from tests.benchmarks.contests import OURS, Contestants, Figures, Row, measure
from tests.benchmarks.goals import ratio_to
from tests.benchmarks.groups import GROUPS, bursts, snapshots, starts
from tests.benchmarks.harness import running_engine
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.benchmarks.harness import EngineClient

MOST: Final = 1.1
"""A row is slower when the whole interval of its ratio lies above this."""
FOLDER: Final = CHECKOUT / ".benchmarks"
FIGURES: Final = FOLDER / "against.json"
USUAL: Final = (starts.ROWS[0], starts.ROWS[1], snapshots.ROWS[0], bursts.ROWS[0])
"""Create, create with the first output, snapshot, capacity."""
_BUILT: Final = ("static", "labextension")
"""Parts of the package that no commit has: those of this checkout serve."""


def run(reference: str, groups: Sequence[str], share: float) -> bool:
    """Measure the usual rows, or those of ``groups``; returns whether none is slower."""
    rows = [row for name in groups for row in GROUPS[name].rows] or list(USUAL)
    loads = [os.getloadavg()[0]]
    measured: list[Figures] = []
    rows = [row for row in rows if not row.unavailable()]
    with (
        worktree(reference) as folder,
        running_engine() as ours,
        running_engine(checkout=folder) as theirs,
    ):
        for row in rows:
            measured.append(measure(_of_both(row, theirs, reference), ours, share=share))
            loads.append(os.getloadavg()[0])
            print("\n".join(report.table_lines(measured[-1])), flush=True)
    machine = report.describe_machine(loads)
    found = {"machine": machine, "reference": reference, "rows": [m.to_json() for m in measured]}
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(found, indent=1))
    slower = [each.row.name for each in measured if each.ratio(reference).low > MOST]
    print(f"\n{report.where(machine)}\nSlower than {MOST}: {', '.join(slower) or 'nothing'}.")
    return not slower


def _of_both(row: Row, theirs: EngineClient, reference: str) -> Row:
    """The row with the other commit's engine as the only peer."""

    @contextlib.contextmanager
    def open_both(ours: EngineClient) -> Iterator[Contestants]:
        with row.open(ours) as here, row.open(theirs) as there:
            yield {OURS: here[OURS], reference: there[OURS]}

    return dataclasses.replace(row, open=open_both, goals=(ratio_to(reference, MOST),))


@contextlib.contextmanager
def worktree(reference: str) -> Iterator[Path]:
    """The files of a commit, with the built parts of this checkout."""
    commit = _git("rev-parse", "--verify", f"{reference}^{{commit}}")
    folder = FOLDER / "against" / commit
    if not folder.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", str(folder), commit)
    try:
        for name in _BUILT:
            built = CHECKOUT / "sbx_jupyter" / name
            if built.exists():
                target = folder / "sbx_jupyter" / name
                shutil.copytree(built, target, dirs_exist_ok=True)
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


def _git(*arguments: str) -> str:
    ran = subprocess.run(
        ["git", *arguments], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    return ran.stdout.strip()
