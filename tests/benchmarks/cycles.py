"""Create, use and kill 1,000 sandboxes in turn: what processes, mounts and memory remain."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.harness import first_output, report, resident_bytes

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

COUNT = 1000
_SETTLE = 3.0


def run(engine: EngineClient, count: int = COUNT) -> None:
    for _ in range(20):  # what is loaded or cached at first use is not a leak
        cycle(engine)
    time.sleep(_SETTLE)
    before = census(engine.pid)
    seconds = [cycle(engine) for _ in range(count)]
    time.sleep(_SETTLE)
    after = census(engine.pid)
    report(f"{count} times create, first output, kill", seconds)
    print(f"  {'':<28} {'before':>10} {'after':>10}")
    for what, value in before.items():
        print(f"  {what:<28} {value:>10} {after[what]:>10}", flush=True)


def cycle(engine: EngineClient) -> float:
    started = time.perf_counter()
    sandbox = engine.create()
    first_output(engine, sandbox)
    engine.kill(sandbox)
    return time.perf_counter() - started


def census(engine: int) -> dict[str, int]:
    """Count the resources of an engine and its zygote, and the processes of the machine."""
    zygote = zygote_of(engine)
    return {
        "processes of this machine": sum(name.isdigit() for name in os.listdir("/proc")),
        "mounts of the engine": _mounts(engine),
        "mounts of the zygote": _mounts(zygote),
        "descriptors of the engine": len(os.listdir(f"/proc/{engine}/fd")),
        "descriptors of the zygote": len(os.listdir(f"/proc/{zygote}/fd")),
        "threads of the engine": len(os.listdir(f"/proc/{engine}/task")),
        "KiB resident, engine": resident_bytes(engine) // 1024,
        "KiB resident, zygote": resident_bytes(zygote) // 1024,
    }


def zygote_of(engine: int) -> int:
    """The zygote below an engine, which may be a child of its helper.

    Sandboxes are its forks and look the same, but come after it here, whatever their numbers.
    Raises ``ValueError`` while there is none.
    """
    found = next((pid for pid in processes_below(engine) if _is_zygote(pid)), None)
    if found is None:
        raise ValueError(f"the engine {engine} has no zygote")
    return found


def processes_below(pid: int) -> list[int]:
    """The children of a process, theirs, and so on; each one before its own."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text()
            for child in map(int, text.split()):
                found += [child, *processes_below(child)]
    return found


def _is_zygote(pid: int) -> bool:
    try:
        return b"isolation.zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _mounts(pid: int) -> int:
    return len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
