"""Create and use 200 sandboxes at once: their latency, and the memory of an idle one."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.harness import first_output, report

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

COUNT = 200
AT_ONCE = 64


def run(engine: EngineClient) -> None:
    before = agent_pss()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        started = time.perf_counter()
        made = list(threads.map(lambda _: use(engine), range(COUNT)))
        elapsed = time.perf_counter() - started
        idle = agent_pss() - before
        list(threads.map(engine.kill, [sandbox for sandbox, _ in made]))
    report(f"{COUNT} created at once, to first output", [seconds for _, seconds in made])
    print(f"  all in {elapsed:.2f} s, {COUNT / elapsed:.0f}/s", flush=True)
    print(f"  PSS per idle sandbox {idle / COUNT / 1e6:.2f} MB", flush=True)


def use(engine: EngineClient) -> tuple[dict[str, Any], float]:
    started = time.perf_counter()
    sandbox = engine.create()
    first_output(engine, sandbox)
    return sandbox, time.perf_counter() - started


def agent_pss() -> int:
    """The sum of the PSS, in bytes, of all processes that are PID 1 of a nested namespace."""
    total = 0
    for folder in Path("/proc").iterdir():
        try:
            status = (folder / "status").read_text()
            namespace_ids = next(
                line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")
            )
            if len(namespace_ids) > 1 and namespace_ids[-1] == "1":
                rollup = (folder / "smaps_rollup").read_text()
                total += next(
                    int(line.split()[1]) * 1024
                    for line in rollup.splitlines()
                    if line.startswith("Pss:")
                )
        except (OSError, StopIteration):
            continue
    return total
