"""Make a chain of 500 snapshots, each of a sandbox that was created from the one before."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tests.benchmarks.harness import first_output, report

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

GENERATIONS = 500
EDGE = 100


def run(engine: EngineClient) -> None:
    snapshots: list[float] = []
    creates: list[float] = []
    sandbox = engine.create()
    for number in range(GENERATIONS):
        write(engine, sandbox, number)
        started = time.perf_counter()
        path = f"/sandboxes/{sandbox['sandboxID']}/snapshots"
        made = engine.platform("POST", path, {"name": "chain"})
        snapshots.append(time.perf_counter() - started)
        engine.kill(sandbox)
        started = time.perf_counter()
        sandbox = engine.create(templateID=made["snapshotID"])
        first_output(engine, sandbox)
        creates.append(time.perf_counter() - started)
    check(engine, sandbox)
    report(f"snapshot, generations 1 to {EDGE}", snapshots[:EDGE])
    report(f"snapshot, the last {EDGE}", snapshots[-EDGE:], snapshots[:EDGE])
    report(f"create to first output, 1 to {EDGE}", creates[:EDGE])
    report(f"create to first output, the last {EDGE}", creates[-EDGE:], creates[:EDGE])


def write(engine: EngineClient, sandbox: dict[str, Any], number: int) -> None:
    script = f"echo {number} >> ~/all; echo {number} > ~/f{number}; rm -f ~/f{number - 3}"
    message = {"process": {"cmd": "/bin/bash", "args": ["-c", script]}, "stdin": False}
    with engine.stream(sandbox, "process.Process/Start", message) as events:
        for _ in events:
            pass


def check(engine: EngineClient, sandbox: dict[str, Any]) -> None:
    """Raise ``RuntimeError`` unless the sandbox has the files of the last generations only."""
    listed = json.loads(engine.unary(sandbox, "filesystem.Filesystem/ListDir", {"path": "."}))
    names = {entry["name"] for entry in listed["entries"]} - {".bashrc", ".profile"}
    wanted = {"all", *(f"f{number}" for number in range(GENERATIONS - 3, GENERATIONS))}
    if not wanted <= names or any(name.startswith("f") for name in names - wanted):
        raise RuntimeError(f"the last generation has {sorted(names)}")
