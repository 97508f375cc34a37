"""Keeps a sandbox below its memory limit where no control group does, or not for TCP.

Once a second, and five times a second near the limit or while the use grows fast, the memory of all
processes is added up: what they have in their address spaces, memory files that they hold without
mapping them, System V segments, ``/dev/shm`` and the buffers of sockets. When it is too much, the
processes that use most of it are killed, and the log of the sandbox says so.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.placement import limits_for
from sbx_jupyter.engine.watch.limits import (
    LONGEST_REST,
    MAX_KILLED,
    MIB,
    Activity,
    GrowthTracker,
    log_kill,
    read_activity,
)

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.placement import Placed
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.isolation.fence import Cage
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence
    from sbx_jupyter.isolation.resource_use.open_files import OpenFiles

_MAX_AGE: Final = 10.0
"""Seconds after which everything is counted again although no process used the processor."""

_TCP_SHARE: Final = 0.5
"""The memory of TCP may be this share of the limit where control groups count it apart."""

_LITTLE_TCP: Final = 16
"""A 16th of what TCP may take neither brings it near that, nor is it a fast growth."""

_SHARE_OF_TIME: Final = 0.1
"""The share of the time that may go into looking at what processes hold."""


@dataclass(frozen=True, slots=True)
class _Use:
    """The memory of a sandbox in bytes, and that of each process."""

    total: int
    by_process: dict[int, int]

    @property
    def hidden(self) -> int:
        """Memory that is in no process's address space."""
        return max(self.total - sum(self.by_process.values()), 0)


class MemoryEnforcer:
    """Kills the processes of a sandbox that use most, when all together use too much memory."""

    def __init__(self, context: Context, slot: Slot, fence: AnyFence) -> None:
        self._context = context
        self._slot = slot
        self._fence = fence
        self._growth = GrowthTracker()
        self._activity: Activity = frozenset()
        self._held: OpenFiles | None = None
        self._held_at = float("-inf")
        self._pause = 0.0
        self._tcp_bytes = 0

    async def check(self, placed: Placed) -> bool:
        limit = self._limit()
        if not limit:
            return False
        if placed.cage.holds_memory:
            return await self._check_tcp(placed, int(limit * _TCP_SHARE))
        await self._look_at_held(placed.cage)
        use = await asyncio.to_thread(_measure, placed.cage, self._held, exact=False)
        if placed.sandbox is not None:
            placed.sandbox.unseen_memory_bytes = use.hidden
        if use.total > limit:
            use = await asyncio.to_thread(_measure, placed.cage, self._held, exact=True)
        if use.total > limit:
            await self._kill(placed.cage, use, limit)
        return self._growth.is_fast(use.total, limit)

    def rest(self, placed: Placed, work_ns: int | None) -> float:
        if work_ns is None:
            return 0.0
        if not self._limit():
            return LONGEST_REST
        is_held = placed.cage.holds_memory and not self.is_called_for(self._tcp_bytes)
        return LONGEST_REST if is_held else 0.0

    def is_called_for(self, tcp_bytes: int) -> bool:
        limit = self._limit()
        return bool(limit) and tcp_bytes > limit * _TCP_SHARE / _LITTLE_TCP

    def _limit(self) -> int:
        """The memory limit in bytes; 0 for none."""
        limits = limits_for(self._slot.row, self._context.config.default_limits)
        return limits.memory_mb * MIB

    async def _check_tcp(self, placed: Placed, limit: int) -> bool:
        """Check the memory of TCP, where a control group holds all other memory."""
        used = await asyncio.to_thread(placed.cage.tcp_bytes)
        self._tcp_bytes = used or 0
        if used is None:
            return False
        if placed.sandbox is not None:
            placed.sandbox.unseen_memory_bytes = used
        if used > limit:
            self._held = await self._fence.open_files(placed.cage)
            await self._kill(
                placed.cage, _Use(used, dict.fromkeys(placed.cage.members(), 0)), limit
            )
        return self._growth.is_fast(used, limit)

    async def _kill(self, cage: Cage, use: _Use, limit: int) -> None:
        killed = await asyncio.to_thread(_kill_largest, cage, use, limit, self._held)
        self._held_at = float("-inf")
        self._context.meters.killed_by_watchdog("memory")
        text = "A process was killed: out of memory"
        await log_kill(self._context, self._slot, text, process=killed)

    async def _look_at_held(self, cage: Cage) -> None:
        """Count what no address space shows, if a process has run since the last count."""
        started = time.monotonic()
        age = started - self._held_at
        if age < self._pause:
            return
        activity = await asyncio.to_thread(read_activity, cage)
        if activity == self._activity and age < _MAX_AGE:
            return
        self._held = await self._fence.open_files(cage)
        self._activity, self._held_at = activity, time.monotonic()
        self._pause = min((self._held_at - started) / _SHARE_OF_TIME, _MAX_AGE)


def _measure(cage: Cage, held: OpenFiles | None, *, exact: bool) -> _Use:
    """Add up the memory of a sandbox.

    Pages that several processes share count for each of them, unless ``exact``.
    """
    found = cage.memory(exact=exact)
    total = sum(memory.resident for memory in found.values())
    if held is not None:
        # What is mapped of memory files is in the address spaces already.
        mapped = sum(memory.in_files for memory in found.values())
        files = held.memory_file_bytes + held.shared_bytes
        total += max(files - mapped, 0) + held.socket_bytes
    return _Use(total, {pid: memory.resident for pid, memory in found.items()})


def _kill_largest(cage: Cage, use: _Use, limit: int, held: OpenFiles | None) -> str:
    """Kill the largest processes until the others use less than the limit; gives their names.

    Others may hold the same memory files; then the next check kills those.
    """
    sizes = dict(use.by_process)
    for pid, size in () if held is None else held.memory_of:
        if pid in sizes:
            sizes[pid] += size
    left = use.total
    killed: list[str] = []
    for pid in sorted(sizes, key=lambda pid: sizes[pid], reverse=True):
        if left <= limit:
            break
        killed.append(f"{cage.end_process(pid)} ({sizes[pid] // MIB} MiB)")
        left -= sizes[pid]
    return ", ".join(killed[:MAX_KILLED])
