"""Enforces the limits of one sandbox that the kernel does not enforce here.

These are the disk limit, and the memory limit where there are no control groups. When the writable
layer is too large, the processes that write to it are killed and the file interface refuses to
write. When there is too much memory in use, the largest processes are killed. Both are written to
the log of the sandbox.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.engine.sandboxes.placement import limits_for
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.isolation import process_resources

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.placement import Placed
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.isolation.fence import Cage, Fence


LONGEST_PAUSE: Final = 1.0
"""Seconds between two checks of a sandbox that is well below its limits."""

INODES_PER_MB: Final = 64
"""One inode per 16 KiB, the default ratio of ext4."""

_MIB: Final = 1 << 20
_MAX_AGE: Final = 10.0
"""Seconds after which a layer is measured again although no process used the processor."""

_MAX_AGE_IDLE: Final = 120.0
"""The same where a control group shows that not even the agent used the processor."""

_URGENT_SHARE: Final = 4
"""A layer is measured at once when the disk lost this fraction (1/4) of its limit."""

_SHARE_OF_TIME: Final = 0.1
"""The share of the time that may go into measuring one layer."""

_MAX_KILLED: Final = 20
"""Processes that are killed as writers in one check, and that are named in one log entry."""


class LimitEnforcer(Protocol):
    """Keeps one sandbox below one limit."""

    async def check(self, placed: Placed) -> bool:
        """Kill what exceeds the limit; true when the next check should come soon.

        Raises ``SbxError`` or ``OSError`` when the use could not be measured.
        """
        ...


class _GrowthTracker:
    """Tells whether a sandbox may reach a limit soon."""

    def __init__(self) -> None:
        self._last: float | None = None

    def is_fast(self, used: float, limit: float) -> bool:
        """Whether more than half is used, or a sixteenth more than at the last call."""
        last, self._last = self._last, used
        return used > limit / 2 or (last is not None and used - last > limit / 16)


class MemoryEnforcer:
    """Kills the largest processes of a sandbox that uses too much memory."""

    def __init__(self, context: Context, slot: Slot) -> None:
        self._context = context
        self._slot = slot
        self._growth = _GrowthTracker()

    async def check(self, placed: Placed) -> bool:
        limits = limits_for(self._slot.row, self._context.config.default_limits)
        if not limits.memory_mb or placed.cage.holds_memory:
            return False
        limit = limits.memory_mb * _MIB
        used, killed = await asyncio.to_thread(_kill_largest, placed.cage, limit)
        if killed:
            self._context.meters.killed_by_watchdog("memory")
            text = "A process was killed: out of memory"
            await _log_kill(self._context, self._slot, text, process=killed)
        return self._growth.is_fast(used, limit)


class DiskEnforcer:
    """Kills processes that write in a sandbox that uses too much disk, and blocks uploads to it."""

    def __init__(self, context: Context, slot: Slot, fence: Fence) -> None:
        self._context = context
        self._slot = slot
        self._fence = fence
        self._growth = _GrowthTracker()
        self._at = float("-inf")
        self._pause = 0.0
        self._free_bytes = 0
        self._activity: frozenset[tuple[int, int]] = frozenset()
        self._work_ns: int | None = None
        self._is_over = False
        self._is_fast = False

    async def check(self, placed: Placed) -> bool:
        limits = limits_for(self._slot.row, self._context.config.default_limits)
        if not limits.disk_mb:
            return False
        age = time.monotonic() - self._at
        work_ns = placed.cage.work_ns()
        if self._is_idle(placed, work_ns) and age < _MAX_AGE_IDLE:
            return False
        # The free space alone is no measure of one layer: others may be removing files.
        free_bytes, activity = await asyncio.to_thread(_read_activity, placed.cage)
        is_urgent = self._free_bytes - free_bytes > limits.disk_mb * _MIB // _URGENT_SHARE
        if activity == self._activity and not self._is_over and age < _MAX_AGE:
            return False
        if age >= self._pause or is_urgent:
            self._free_bytes, self._activity, self._work_ns = free_bytes, activity, work_ns
            await self._measure(placed, limits.disk_mb)
        return self._is_fast

    def _is_idle(self, placed: Placed, work_ns: int | None) -> bool:
        """Whether nothing can have been written since the layer was measured."""
        if work_ns is None or work_ns != self._work_ns or self._is_over:
            return False
        return placed.sandbox is None or not placed.sandbox.files.is_written

    async def _measure(self, placed: Placed, limit_mb: int) -> None:
        started = time.monotonic()
        size, inodes = await self._fence.tree_operations.measure(placed.cage.writable)
        files = await self._fence.open_files(placed.cage)
        size += files.unnamed_bytes
        self._at = time.monotonic()
        self._pause = min((self._at - started) / _SHARE_OF_TIME, _MAX_AGE)
        share = max(size / _MIB, inodes / INODES_PER_MB)
        was_over, self._is_over = self._is_over, share > limit_mb
        self._is_fast = self._growth.is_fast(share, limit_mb)
        if placed.sandbox is not None:
            placed.sandbox.files.is_full = self._is_over
        if not self._is_over:
            return
        self._pause = min(self._pause, LONGEST_PAUSE)
        killed = await asyncio.to_thread(_kill_writers, placed.cage, files.writers)
        if killed:
            self._context.meters.killed_by_watchdog("disk")
        if killed or not was_over:
            used = f"{size // _MIB} MiB in {inodes} files of {limit_mb} MiB"
            text = "The sandbox uses more than its disk, who writes is killed"
            await _log_kill(self._context, self._slot, text, used=used, processes=killed)


async def _log_kill(context: Context, slot: Slot, text: str, **fields: str) -> None:
    entry = logs.entry(slot.sandbox_id, "warn", text, **fields)
    await context.commit(Batch().log(entry))


def _read_activity(cage: Cage) -> tuple[int, frozenset[tuple[int, int]]]:
    """The free bytes of the disk, and the processor ticks of each process.

    The same ticks twice mean that no process ran in between.
    """
    disk = os.statvfs(cage.writable)
    activity = frozenset((pid, process_resources.ticks(pid)) for pid in cage.members())
    return disk.f_bavail * disk.f_frsize, activity


def _kill_largest(cage: Cage, limit: int) -> tuple[int, str]:
    """Kill the largest processes until the others use less than the limit.

    Returns the bytes that all used together, and the names of the killed.
    """
    members = cage.members()
    used = sum(map(process_resources.resident, members))
    if used <= limit:
        return used, ""
    sizes = {pid: process_resources.resident(pid, exact=True) for pid in members}
    used = left = sum(sizes.values())  # exact: shared pages count once
    killed: list[str] = []
    for pid in sorted(sizes, key=lambda pid: sizes[pid], reverse=True):
        if left <= limit:
            break
        killed.append(f"{process_resources.kill(pid)} ({sizes[pid] // _MIB} MiB)")
        left -= sizes[pid]
    return used, ", ".join(killed[:_MAX_KILLED])


def _kill_writers(cage: Cage, writers: tuple[int, ...]) -> str:
    """Kill the processes that have a file open for writing, or else the busiest one.

    Returns the names of the killed.
    """
    members = cage.members()
    chosen = [pid for pid in writers if pid in members]
    if not chosen and members:
        chosen = [max(members, key=process_resources.ticks)]
    return ", ".join(process_resources.kill(pid) for pid in chosen[:_MAX_KILLED])
