"""Time of ListDir for 20,000 files, compared with ``os.scandir`` and ``stat`` of as many."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.create import first_output
from tests.benchmarks.harness import report, timed

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

FILES = 20_000
ROUNDS = 10


def run(engine: EngineClient) -> None:
    with engine.sandbox() as sandbox, tempfile.TemporaryDirectory() as folder:
        for index in range(FILES):
            Path(folder, f"file-{index:05}").touch()
        script = f"mkdir -p many && cd many && seq -f file-%05g 0 {FILES - 1} | xargs touch"
        message = {"process": {"cmd": "/bin/bash", "args": ["-c", script]}}
        with engine.stream(sandbox, "process.Process/Start", message) as events:
            list(events)
        first_output(engine, sandbox)

        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            theirs.append(timed(lambda: [entry.stat() for entry in os.scandir(folder)]))
            ours.append(timed(lambda: list_many(engine, sandbox)))
    report("os.scandir and stat", theirs)
    report("filesystem.Filesystem/ListDir", ours, theirs)


def list_many(engine: EngineClient, sandbox: dict[str, str]) -> None:
    """List the files and count them; the time includes no decoding of the answer."""
    answer = engine.unary(sandbox, "filesystem.Filesystem/ListDir", {"path": "many"})
    if (count := answer.count(b'"permissions":')) != FILES:
        raise RuntimeError(f"{count} entries")
