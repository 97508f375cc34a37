"""Draws a flame graph of the engine while a row is measured, without its peers."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Final

from tests.benchmarks import library_peers, report
from tests.benchmarks.contests import OURS, Contestants, Row, measure
from tests.benchmarks.groups import GROUPS
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.harness import EngineClient

FOLDER: Final = CHECKOUT / ".benchmarks"
_RATE: Final = 500
"""Samples a second."""


def run(name: str, share: float) -> Path:
    """Measure the first row whose name contains ``name``; returns the SVG file.

    Raises ``LookupError`` when there is none that this machine can measure.
    """
    found = [
        (group, row)
        for group in GROUPS.values()
        for row in group.rows
        if name.lower() in row.name.lower() and not row.unavailable()
    ]
    if not found:
        raise LookupError(f"no row has {name!r} in its name")
    group, row = found[0]
    library_peers.install()
    path = FOLDER / f"{re.sub(r'[^a-z0-9]+', '-', row.name.lower()).strip('-')}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    with group.engine(*group.options) as engine, _sampled(engine.pid, path):
        figures = measure(_alone(row), engine, share=share)
    print("\n".join(report.table_lines(figures)), flush=True)
    return path


def _alone(row: Row) -> Row:
    @contextlib.contextmanager
    def open_ours(engine: EngineClient) -> Iterator[Contestants]:
        with row.open(engine) as contestants:
            yield {OURS: contestants[OURS]}

    return dataclasses.replace(row, open=open_ours, goals=())


@contextlib.contextmanager
def _sampled(pid: int, path: Path) -> Iterator[None]:
    """Sample the Python of a process; py-spy draws when it is interrupted."""
    command = [
        *(f"{library_peers.FOLDER}/bin/py-spy", "record", "--pid", str(pid)),
        *("--rate", str(_RATE), "--output", str(path), "--format", "flamegraph"),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as sampler:
        try:
            yield
        finally:
            sampler.send_signal(signal.SIGINT)
            _, said = sampler.communicate(timeout=60)
    if not path.exists():
        raise RuntimeError(f"py-spy wrote nothing: {said.decode(errors='replace')[-300:]}")
