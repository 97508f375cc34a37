"""Time of a snapshot, a fork and a create from the snapshot, for 1 GB in 10,000 files."""

from __future__ import annotations

import base64
import json
import re
import statistics
import time
from typing import TYPE_CHECKING, Any

from tests.benchmarks.create import first_output
from tests.benchmarks.harness import report

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

FILES = 10_000
FILE_SIZE = 100_000
ROUNDS = 3
TICKER = """
import time
last = time.monotonic()
longest = 0.0
while True:
    time.sleep(0.002)
    now = time.monotonic()
    if now - last > longest:
        longest = now - last
        print(f"longest {longest:.4f}", flush=True)
    last = now
"""


def run(engine: EngineClient) -> None:
    snapshots: list[float] = []
    forks: list[float] = []
    creates: list[float] = []
    stops: list[float] = []
    taken: list[int] = []
    with engine.sandbox() as sandbox:
        fill(engine, sandbox)
        for _ in range(ROUNDS):
            before = engine.platform("GET", "/engine/disk?maxAge=0")
            started = time.perf_counter()
            made, stop = watched_snapshot(engine, sandbox)
            snapshots.append(time.perf_counter() - started)
            stops.append(stop)

            started = time.perf_counter()
            with engine.sandbox(templateID=made["snapshotID"]) as copy:
                first_output(engine, copy)
                creates.append(time.perf_counter() - started)

            after = engine.platform("GET", "/engine/disk?maxAge=0")
            taken.append(before["freeBytes"] - after["freeBytes"])
            started = time.perf_counter()
            path = f"/sandboxes/{sandbox['sandboxID']}/fork"
            (forked,) = engine.platform("POST", path, {"count": 1, "timeout": 60})
            forks.append(time.perf_counter() - started)
            engine.kill(forked["sandbox"])
            engine.platform("DELETE", f"/templates/{made['snapshotID'].replace(':', '%3A')}")
    report("snapshot of 1 GB in 10,000 files", snapshots)
    report("of which the sandbox stood still", stops)
    report("fork", forks)
    report("create from the snapshot, to first output", creates)
    print(f"  a snapshot takes {statistics.median(taken) / 1e6:.0f} MB of the disk", flush=True)


def fill(engine: EngineClient, sandbox: dict[str, Any]) -> None:
    script = (
        f"mkdir d && cd d && head -c {FILE_SIZE} /dev/urandom > block &&"
        f" for i in $(seq {FILES}); do [ $((i % 100)) = 1 ] && mkdir -p $((i / 100));"
        " cp block $((i / 100))/$i 2>/dev/null || { mkdir -p $((i / 100));"
        " cp block $((i / 100))/$i; }; done"
    )
    message = {"process": {"cmd": "/bin/bash", "args": ["-c", script]}}
    with engine.stream(sandbox, "process.Process/Start", message) as events:
        list(events)


def watched_snapshot(engine: EngineClient, sandbox: dict[str, Any]) -> tuple[Any, float]:
    """Take a snapshot; returns it and the seconds that a program inside was frozen."""
    message = {"process": {"cmd": "python3", "args": ["-c", TICKER]}, "stdin": False}
    with engine.stream(sandbox, "process.Process/Start", message) as events:
        pid = json.loads(next(events)[1])["event"]["start"]["pid"]
        time.sleep(0.5)
        made = engine.platform("POST", f"/sandboxes/{sandbox['sandboxID']}/snapshots", {})
        time.sleep(0.2)
        kill = {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}
        engine.unary(sandbox, "process.Process/SendSignal", kill)
        output = b"".join(_stdout(payload) for _, payload in events)
    found = re.findall(rb"longest ([0-9.]+)", output)
    return made, float(found[-1]) if found else 0.0


def _stdout(payload: bytes) -> bytes:
    event = json.loads(payload).get("event", {})
    return base64.b64decode(event.get("data", {}).get("stdout", ""))
