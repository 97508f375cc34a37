"""Holds sandboxes to the limits that the kernel does not hold here: disk, and memory without
control groups.

It looks once a second, so a program can go over a limit for about that long. Who writes to a layer
that is too large is killed, and the file interface refuses to write there; who is largest in a
sandbox that has too much memory is killed. Both are said in the sandbox's log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine import logs
from sbx_jupyter.engine.lifecycle import State
from sbx_jupyter.engine.placement import limits_for
from sbx_jupyter.engine.store import Batch
from sbx_jupyter.errors import SbxError
from sbx_jupyter.isolation import census

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.placement import Placed
    from sbx_jupyter.engine.slots import Slot
    from sbx_jupyter.isolation.fence import Cage, Fence

_log = logging.getLogger(__name__)

INTERVAL: Final = 1.0
INODES_PER_MB: Final = 64
"""As file systems are made: one inode for every 16 KiB."""

_MIB: Final = 1 << 20
_AT_ONCE: Final = 2
_LONGEST_TRUST: Final = 10.0
"""Seconds after which a layer is measured although no process of the sandbox worked."""

_URGENT_SHARE: Final = 4
"""What part of its limit may have filled the disk before a layer is measured at once."""

_SHARE_OF_TIME: Final = 0.1
"""The share of the time that measuring one layer may take."""


@dataclass(slots=True)
class _Watched:
    """What was found at the last look at a layer."""

    at: float = float("-inf")
    pause: float = 0.0
    free_bytes: int = 0
    activity: frozenset[tuple[int, int]] = frozenset()
    is_over: bool = False


class Watchdog:
    """Looks after all running sandboxes."""

    def __init__(self, context: Context, fence: Fence) -> None:
        self._context = context
        self._fence = fence
        self._watched: dict[str, _Watched] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sbx-watchdog")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            await self.look()

    async def look(self) -> None:
        """Look at every running sandbox once."""
        running = [slot for slot in self._context.slots if slot.state is State.RUNNING]
        known = {slot.sandbox_id for slot in running}
        self._watched = {name: seen for name, seen in self._watched.items() if name in known}
        await asyncio.gather(*(self._look_at(slot) for slot in running))

    async def _look_at(self, slot: Slot) -> None:
        placed = slot.placed
        if placed is None:
            return
        limits = limits_for(slot.row, self._context.config.default_limits)
        try:
            async with self._room:
                if limits.memory_mb and not placed.cage.holds_memory:
                    await self._hold_memory(slot, placed.cage, limits.memory_mb * _MIB)
                if limits.disk_mb:
                    await self._hold_disk(slot, placed, limits.disk_mb)
        except (SbxError, OSError) as error:
            _log.debug("not looked after: %s", error, extra={"sandbox_id": slot.sandbox_id})
        except Exception:
            # One sandbox that surprises must not leave all others without a watch.
            _log.exception("sandbox %s could not be looked after", slot.sandbox_id)

    async def _hold_memory(self, slot: Slot, cage: Cage, limit: int) -> None:
        killed = await asyncio.to_thread(_kill_largest, cage, limit)
        if killed:
            self._context.meters.killed_by_watchdog("memory")
            await self._tell(slot, "A process was killed: out of memory", process=killed)

    async def _hold_disk(self, slot: Slot, placed: Placed, limit_mb: int) -> None:
        watched = self._watched.setdefault(slot.sandbox_id, _Watched())
        disk = await asyncio.to_thread(os.statvfs, placed.cage.writable)
        free_bytes = disk.f_bavail * disk.f_frsize
        # The disk as a whole says nothing of one layer: others may be removing theirs.
        activity = await asyncio.to_thread(_activity, placed.cage)
        age = time.monotonic() - watched.at
        is_quiet = activity == watched.activity
        is_urgent = watched.free_bytes - free_bytes > limit_mb * _MIB // _URGENT_SHARE
        if (age < watched.pause and not is_urgent) or (
            is_quiet and not watched.is_over and age < _LONGEST_TRUST
        ):
            return
        started = time.monotonic()
        size, inodes = await self._fence.measure(placed.cage.writable)
        files = await self._fence.open_files(placed.cage)
        size += files.unnamed_bytes
        watched.at = time.monotonic()
        watched.pause = min((watched.at - started) / _SHARE_OF_TIME, _LONGEST_TRUST)
        watched.free_bytes, watched.activity = free_bytes, activity
        was_over = watched.is_over
        watched.is_over = size > limit_mb * _MIB or inodes > limit_mb * INODES_PER_MB
        if placed.sandbox is not None:
            placed.sandbox.files.is_full = watched.is_over
        if not watched.is_over:
            return
        watched.pause = min(watched.pause, INTERVAL)
        killed = await asyncio.to_thread(_kill_writers, placed.cage, files.writers)
        if killed:
            self._context.meters.killed_by_watchdog("disk")
        if killed or not was_over:
            used = f"{size // _MIB} MiB in {inodes} files of {limit_mb} MiB"
            text = "The sandbox uses more than its disk, who writes is killed"
            await self._tell(slot, text, used=used, processes=killed)

    async def _tell(self, slot: Slot, text: str, **fields: str) -> None:
        entry = logs.entry(slot.sandbox_id, "warn", text, **fields)
        await self._context.commit(Batch().log(entry))


def _activity(cage: Cage) -> frozenset[tuple[int, int]]:
    """The processes and their processor time: the same twice means that nobody worked."""
    return frozenset((pid, census.ticks(pid)) for pid in cage.members())


def _kill_largest(cage: Cage, limit: int) -> str:
    """End the largest process if all together have more than the limit; its name."""
    members = cage.members()
    if sum(map(census.resident, members)) <= limit:
        return ""
    sizes = {pid: census.resident(pid, exact=True) for pid in members}
    if sum(sizes.values()) <= limit:
        return ""  # most of it is shared
    largest = max(sizes, key=lambda pid: sizes[pid])
    return f"{census.kill(largest)} ({sizes[largest] // _MIB} MiB)"


def _kill_writers(cage: Cage, writers: tuple[int, ...]) -> str:
    """End who has a file open for writing, or else who works most; their names."""
    members = cage.members()
    chosen = [pid for pid in writers if pid in members]
    if not chosen and members:
        chosen = [max(members, key=census.ticks)]
    return ", ".join(census.kill(pid) for pid in chosen[:20])
