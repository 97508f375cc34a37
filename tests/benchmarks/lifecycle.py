"""Time of a pause and resume with memory, and the processor time of a paused busy loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.benchmarks.harness import report, timed

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

ROUNDS = 30


def run(engine: EngineClient) -> None:
    with engine.sandbox() as sandbox:
        base = f"/sandboxes/{sandbox['sandboxID']}"
        loop = {"process": {"cmd": "/bin/sh", "args": ["-c", "while :; do :; done"]}}
        with engine.stream(sandbox, "process.Process/Start", loop) as events:
            next(events)
            pauses: list[float] = []
            resumes: list[float] = []
            for _ in range(ROUNDS):
                pauses.append(timed(lambda: call(engine, f"{base}/pause", {})))
                resumes.append(timed(lambda: call(engine, f"/v2{base}/connect", {"timeout": 600})))
            busy = cpu_over(engine, sandbox, 1.0)
    report("pause with memory", pauses)
    report("resume", resumes)
    print(f"  CPU of the busy loop: running {busy[0]:.0f} %, paused {busy[1]:.0f} %", flush=True)


def call(engine: EngineClient, url: str, body: dict[str, int]) -> None:
    engine.platform("POST", url, body)


def cpu_over(engine: EngineClient, sandbox: dict[str, str], seconds: float) -> tuple[float, float]:
    """Percent of one processor that the busy loop uses while it runs, and while it is paused."""
    running = shell_time()
    time.sleep(seconds)
    running = (shell_time() - running) / seconds * 100
    call(engine, f"/sandboxes/{sandbox['sandboxID']}/pause", {})
    paused = shell_time()
    time.sleep(seconds)
    return running, (shell_time() - paused) / seconds * 100


def shell_time() -> float:
    """CPU seconds of the busiest ``sh -c while`` process, read from the host's ``/proc``."""
    import os
    from pathlib import Path

    busiest = 0.0
    for folder in Path("/proc").iterdir():
        try:
            if b"while :" in (folder / "cmdline").read_bytes():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks = int(fields[11]) + int(fields[12])
                busiest = max(busiest, ticks / os.sysconf("SC_CLK_TCK"))
        except (OSError, NotADirectoryError):
            continue
    return busiest
