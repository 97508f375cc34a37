"""Time of a create with the whole fence, and without the system call filter or the limits."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.fence_spec import FenceSpec, Limits
from sbx_jupyter.isolation.tiers import choose, detect
from tests.benchmarks.harness import report

if TYPE_CHECKING:
    from tests.benchmarks.harness import EngineClient

ROUNDS = 40
LIMITS = Limits(memory_mb=256, cpu_count=1, processes=128, disk_mb=64, open_files=1024)
KINDS = {
    "everything": frozenset[str](),
    "without the system call filter": frozenset({"seccomp"}),
    "without limits": frozenset({"limits"}),
    "without filter and limits": frozenset({"seccomp", "limits"}),
}


def run(engine: EngineClient) -> None:
    with tempfile.TemporaryDirectory(prefix="sbx-bench-", ignore_cleanup_errors=True) as folder:
        asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> None:
    found = detect(folder)
    tier = choose(found)
    homes = {name: folder / str(number) for number, name in enumerate(KINDS)}
    for home in homes.values():
        home.mkdir()
    fences = {name: Fence(homes[name], found, tier, _without=kind) for name, kind in KINDS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in KINDS}
    for fence in fences.values():
        await fence.start()
    for number in range(-2, ROUNDS):
        for name, fence in fences.items():
            taken = await _create(fence, homes[name], f"h{number % 1000}{len(name)}")
            if number >= 0:
                seconds[name].append(taken)
    for fence in fences.values():
        await fence.stop()
    for name, taken in seconds.items():
        report(f"create, {name}", taken, seconds["without filter and limits"])


async def _create(fence: Fence, folder: Path, sandbox_id: str) -> float:
    address = folder / f"{sandbox_id}.sock"
    spec = FenceSpec(sandbox_id, (), "host", folder / "sandboxes" / sandbox_id, LIMITS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen(1)
        started = time.perf_counter()
        cage = await fence.create(spec, listener)
        taken = time.perf_counter() - started
    await cage.kill()
    cage.close()
    await fence.tree_operations.remove(spec.writable)
    address.unlink()
    return taken
