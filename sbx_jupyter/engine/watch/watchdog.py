"""Watches over the limits that the kernel does not hold here: disk, and memory without control
groups.

It looks at each sandbox once a second, and five times a second while one is near a limit or on its
way, so a program can go over a limit for about that long. Who writes to a layer that is too large
is killed, and the file interface refuses to write there; who is largest in a sandbox that has too
much memory is killed. Both are said in the sandbox's log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.sandboxes.placement import limits_for
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.errors import SbxError
from sbx_jupyter.isolation import process_resources

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.placement import Placed
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.isolation.fence import Cage, Fence


LONGEST_PAUSE: Final = 1.0
"""Seconds between two looks at a sandbox that is well below its limits."""

INODES_PER_MB: Final = 64
"""As file systems are made: one inode for every 16 KiB."""

_MIB: Final = 1 << 20
_LONGEST_TRUST: Final = 10.0
"""Seconds after which a layer is measured although no process of the sandbox worked."""

_STILL_TRUST: Final = 120.0
"""The same where a control group says that not even the agent worked."""

_URGENT_SHARE: Final = 4
"""What part of its limit may have filled the disk before a layer is measured at once."""

_SHARE_OF_TIME: Final = 0.1
"""The share of the time that measuring one layer may take."""

_MAX_NAMED: Final = 20


class Hold(Protocol):
    """Keeps a sandbox to one limit."""

    async def look(self, placed: Placed) -> bool:
        """Look, and end what is too much; whether the next look should come soon.

        Raises ``SbxError`` or ``OSError`` when nothing could be seen.
        """
        ...


class _Growth:
    """Whether a sandbox may soon be at its limit: it is near, or on its way."""

    def __init__(self) -> None:
        self._last: float | None = None

    def is_fast(self, used: float, limit: float) -> bool:
        """Note what is used; whether that is above half the limit or grew by much."""
        last, self._last = self._last, used
        return used > limit / 2 or (last is not None and used - last > limit / 16)


class MemoryHold:
    """Ends the largest processes of a sandbox that has too much memory."""

    def __init__(self, context: Context, slot: Slot) -> None:
        self._context = context
        self._slot = slot
        self._growth = _Growth()

    async def look(self, placed: Placed) -> bool:
        limits = limits_for(self._slot.row, self._context.config.default_limits)
        if not limits.memory_mb or placed.cage.holds_memory:
            return False
        limit = limits.memory_mb * _MIB
        used, killed = await asyncio.to_thread(_kill_largest, placed.cage, limit)
        if killed:
            self._context.meters.killed_by_watchdog("memory")
            text = "A process was killed: out of memory"
            await _tell(self._context, self._slot, text, process=killed)
        return self._growth.is_fast(used, limit)


class DiskHold:
    """Ends who writes in a sandbox that has too much disk, and lets no file be written there."""

    def __init__(self, context: Context, slot: Slot, fence: Fence) -> None:
        self._context = context
        self._slot = slot
        self._fence = fence
        self._growth = _Growth()
        self._at = float("-inf")
        self._pause = 0.0
        self._free_bytes = 0
        self._activity: frozenset[tuple[int, int]] = frozenset()
        self._work_ns: int | None = None
        self._is_over = False
        self._is_fast = False

    async def look(self, placed: Placed) -> bool:
        limits = limits_for(self._slot.row, self._context.config.default_limits)
        if not limits.disk_mb:
            return False
        age = time.monotonic() - self._at
        work_ns = placed.cage.work_ns()
        if self._is_still(placed, work_ns) and age < _STILL_TRUST:
            return False
        # The disk as a whole says nothing of one layer: others may be removing theirs.
        free_bytes, activity = await asyncio.to_thread(_look_at, placed.cage)
        is_urgent = self._free_bytes - free_bytes > limits.disk_mb * _MIB // _URGENT_SHARE
        if activity == self._activity and not self._is_over and age < _LONGEST_TRUST:
            return False
        if age >= self._pause or is_urgent:
            self._free_bytes, self._activity, self._work_ns = free_bytes, activity, work_ns
            await self._measure(placed, limits.disk_mb)
        return self._is_fast

    def _is_still(self, placed: Placed, work_ns: int | None) -> bool:
        """Whether nothing can have been written since the layer was measured."""
        if work_ns is None or work_ns != self._work_ns or self._is_over:
            return False
        return placed.sandbox is None or not placed.sandbox.files.is_written

    async def _measure(self, placed: Placed, limit_mb: int) -> None:
        started = time.monotonic()
        size, inodes = await self._fence.measure(placed.cage.writable)
        files = await self._fence.open_files(placed.cage)
        size += files.unnamed_bytes
        self._at = time.monotonic()
        self._pause = min((self._at - started) / _SHARE_OF_TIME, _LONGEST_TRUST)
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
            await _tell(self._context, self._slot, text, used=used, processes=killed)


async def _tell(context: Context, slot: Slot, text: str, **fields: str) -> None:
    entry = logs.entry(slot.sandbox_id, "warn", text, **fields)
    await context.commit(Batch().log(entry))


def _look_at(cage: Cage) -> tuple[int, frozenset[tuple[int, int]]]:
    """The free bytes of the disk, and the processes with their processor time: the same twice
    means that nobody worked."""
    disk = os.statvfs(cage.writable)
    activity = frozenset((pid, process_resources.ticks(pid)) for pid in cage.members())
    return disk.f_bavail * disk.f_frsize, activity


def _kill_largest(cage: Cage, limit: int) -> tuple[int, str]:
    """End the largest processes until the others have less than the limit.

    Gives what all had together, and the names of the ended.
    """
    members = cage.members()
    used = sum(map(process_resources.resident, members))
    if used <= limit:
        return used, ""
    sizes = {pid: process_resources.resident(pid, exact=True) for pid in members}
    used = left = sum(sizes.values())  # most of it may be shared
    killed: list[str] = []
    for pid in sorted(sizes, key=lambda pid: sizes[pid], reverse=True):
        if left <= limit:
            break
        killed.append(f"{process_resources.kill(pid)} ({sizes[pid] // _MIB} MiB)")
        left -= sizes[pid]
    return used, ", ".join(killed[:_MAX_NAMED])


def _kill_writers(cage: Cage, writers: tuple[int, ...]) -> str:
    """End who has a file open for writing, or else who works most; their names."""
    members = cage.members()
    chosen = [pid for pid in writers if pid in members]
    if not chosen and members:
        chosen = [max(members, key=process_resources.ticks)]
    return ", ".join(process_resources.kill(pid) for pid in chosen[:_MAX_NAMED])


_log = logging.getLogger(__name__)

_SHORTEST_PAUSE: Final = 0.2
_AT_ONCE: Final = 2
_SHARE_OF_LOOKING: Final = 0.1
"""The share of the time that soon looking again at one sandbox may take."""


class Watchdog:
    """Looks after all running sandboxes, after each on its own: a slow one keeps no other waiting
    but those that wait for the same kind of look.
    """

    def __init__(self, context: Context, fence: Fence) -> None:
        self._context = context
        self._fence = fence
        self._guards: dict[str, tuple[Slot, tuple[asyncio.Task[None], ...]]] = {}
        self._memory_room = asyncio.Semaphore(_AT_ONCE)
        self._disk_room = asyncio.Semaphore(_AT_ONCE)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sbx-watchdog")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        ending = [task for name in list(self._guards) for task in self._dismiss(name)]
        await asyncio.gather(*ending, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            running = {s.sandbox_id: s for s in self._context.slots if s.state is State.RUNNING}
            for name, (slot, tasks) in list(self._guards.items()):
                if running.get(name) is not slot or any(map(_is_over, tasks)):
                    self._dismiss(name)
            for name, slot in running.items():
                if name not in self._guards:
                    self._guards[name] = slot, self._watch(slot)
            await asyncio.sleep(LONGEST_PAUSE)

    def _watch(self, slot: Slot) -> tuple[asyncio.Task[None], ...]:
        memory = self._look_after(slot, MemoryHold(self._context, slot), self._memory_room)
        disk = self._look_after(slot, DiskHold(self._context, slot, self._fence), self._disk_room)
        name = f"sbx-watchdog-{slot.sandbox_id}"
        return asyncio.create_task(memory, name=name), asyncio.create_task(disk, name=name)

    def _dismiss(self, sandbox_id: str) -> tuple[asyncio.Task[None], ...]:
        _, tasks = self._guards.pop(sandbox_id)
        for task in tasks:
            task.cancel()
        return tasks

    async def _look_after(self, slot: Slot, hold: Hold, room: asyncio.Semaphore) -> None:
        """Look until cancelled; what nobody expected ends this, and a new one takes its place."""
        pause = 0.0
        while True:
            await asyncio.sleep(pause)
            pause = LONGEST_PAUSE
            placed = slot.placed
            if placed is None:
                continue
            try:
                async with room:
                    started = time.monotonic()
                    if await hold.look(placed):
                        took = time.monotonic() - started
                        pause = min(max(took / _SHARE_OF_LOOKING, _SHORTEST_PAUSE), LONGEST_PAUSE)
            except (SbxError, OSError) as error:
                _log.debug("not looked after: %s", error, extra={"sandbox_id": slot.sandbox_id})


def _is_over(task: asyncio.Task[None]) -> bool:
    """Whether a guard ended by itself, which is told once."""
    if not task.done():
        return False
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s stopped and is replaced", task.get_name(), exc_info=error)
    return True
