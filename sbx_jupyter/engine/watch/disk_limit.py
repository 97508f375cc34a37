"""Keeps a sandbox below its disk limit, and the volumes that it mounts below theirs.

Where a quota of the file system holds the sandbox, there is nothing to do. Elsewhere the files with
a name are measured, and those that processes hold without one. When they are too much, the
processes that hold or write them are killed, and the file interface refuses to write. The log of
the sandbox says so.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.placement import limits_for
from sbx_jupyter.engine.watch.limits import (
    LONGEST_PAUSE,
    LONGEST_REST,
    MAX_KILLED,
    MIB,
    Activity,
    GrowthTracker,
    log_kill,
    read_activity,
    read_free_bytes,
)
from sbx_jupyter.isolation.kernel import subvolumes
from sbx_jupyter.isolation.resource_use import processes

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.placement import Placed
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.isolation.fence import Cage
    from sbx_jupyter.isolation.fence_spec import Limits
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence
    from sbx_jupyter.isolation.resource_use.open_files import OpenFiles

INODES_PER_MB: Final = 64
"""One inode per 16 KiB, the default ratio of ext4."""

_MAX_AGE: Final = 10.0
"""Seconds after which a layer is measured again although no process used the processor."""

_URGENT_SHARE: Final = 4
"""A layer is measured at once when the disk lost this fraction (1/4) of its limit."""

_SHARE_OF_TIME: Final = 0.1
"""The share of the time that may go into measuring one layer."""

_UNSEEN_SHARE: Final = 8
"""A descriptor in flight that cannot be looked at counts as 1/8 of the limit, if it stays."""

_QUOTA_AGE: Final = 10.0
"""Seconds for which it is believed that a quota holds: root may switch quotas off."""


class DiskEnforcer:
    """Kills processes that write in a sandbox that uses too much disk, and blocks uploads to it."""

    def __init__(self, context: Context, slot: Slot, fence: AnyFence) -> None:
        self._context = context
        self._slot = slot
        self._fence = fence
        self._growth = GrowthTracker()
        self._at = float("-inf")
        self._pause = 0.0
        self._free_bytes = 0
        self._activity: Activity = frozenset()
        self._work_ns: int | None = None
        self._is_over = False
        self._is_fast = False
        self._unseen = 0
        self._watched: list[Path] = []
        self._is_held = False
        self._quota_at = float("-inf")

    async def check(self, placed: Placed) -> bool:
        limits = self._limits()
        if time.monotonic() - self._quota_at > _QUOTA_AGE:
            await asyncio.to_thread(self._find_quotas, placed.cage)
        watches_layer = self._watches_layer()
        if not watches_layer and not self._watched:
            return False
        age = time.monotonic() - self._at
        work_ns = placed.cage.work_ns()
        if self._is_idle(placed, work_ns) and age < LONGEST_REST:
            return False
        # The free space alone is no measure of one layer: others may be removing files.
        free_bytes = await asyncio.to_thread(read_free_bytes, placed.cage)
        activity = await asyncio.to_thread(read_activity, placed.cage)
        is_urgent = self._free_bytes - free_bytes > (limits.disk_mb * MIB or MIB) // _URGENT_SHARE
        is_settled = not self._is_over and not self._unseen
        if activity == self._activity and is_settled and age < _MAX_AGE:
            return False
        if age >= self._pause or is_urgent:
            self._free_bytes, self._activity = free_bytes, activity
            # What is written from outside needs no process of the sandbox.
            self._work_ns = None if _is_written(placed) else work_ns
            await self._measure(placed, limits.disk_mb if watches_layer else 0)
        return self._is_fast

    def rest(self, placed: Placed, work_ns: int | None) -> float:
        if work_ns is None:
            return 0.0
        if not self._watches_layer() and not self._watched:
            return LONGEST_REST
        if not self._is_idle(placed, work_ns):
            return 0.0
        return max(0.0, self._at + LONGEST_REST - time.monotonic())

    def is_called_for(self, tcp_bytes: int) -> bool:
        return False

    def _limits(self) -> Limits:
        return limits_for(self._slot.row, self._context.config.default_limits)

    def _watches_layer(self) -> bool:
        return bool(self._limits().disk_mb) and not self._is_held

    def _find_quotas(self, cage: Cage) -> None:
        """Find out what the file system holds to a limit by itself; blocking."""
        self._is_held = subvolumes.read_quota(cage.writable) is not None
        volumes = self._volumes() if self._context.config.volume_size_mb else []
        self._watched = [path for path in volumes if subvolumes.read_quota(path) is None]
        self._quota_at = time.monotonic()

    def _volumes(self) -> list[Path]:
        mounts, row = self._context.hooks.volume_directories, self._slot.row
        return [] if mounts is None else mounts(row.volume_mounts, row.owner)

    def _is_idle(self, placed: Placed, work_ns: int | None) -> bool:
        """Whether nothing can have been written since the layer was measured."""
        if work_ns is None or work_ns != self._work_ns or self._is_over or self._unseen:
            return False
        return not _is_written(placed)

    async def _measure(self, placed: Placed, limit_mb: int) -> None:
        """Measure the layer, unless ``limit_mb`` is 0, and the volumes."""
        started = time.monotonic()
        held = await self._fence.open_files(placed.cage)
        over: list[str] = []
        share = 0.0
        if limit_mb:
            share, used = await self._measure_layer(placed, held, limit_mb)
            over += [used] if share > 1 else []
        volumes, in_volumes = await self._measure_volumes()
        over += in_volumes
        share = max(share, volumes)
        self._at = time.monotonic()
        self._pause = min((self._at - started) / _SHARE_OF_TIME, _MAX_AGE)
        was_over, self._is_over = self._is_over, bool(over)
        self._is_fast = self._growth.is_fast(share, 1)
        if not over:
            return
        self._pause = min(self._pause, LONGEST_PAUSE)
        killed = await asyncio.to_thread(_kill_holders, placed.cage, held)
        if killed:
            self._context.meters.killed_by_watchdog("disk")
        if killed or not was_over:
            text = "The sandbox uses more than its disk, who writes is killed"
            used = "; ".join(over)
            await log_kill(self._context, self._slot, text, used=used, processes=killed)

    async def _measure_layer(
        self, placed: Placed, held: OpenFiles, limit_mb: int
    ) -> tuple[float, str]:
        """The part of the limit that is used, and what is used, in words."""
        size, inodes = await self._fence.tree_operations.measure(placed.cage.writable)
        # Descriptors are in flight for a moment everywhere; what stays there is held.
        unseen, self._unseen = min(held.unseen, self._unseen), held.unseen
        hidden = held.unnamed_bytes + unseen * limit_mb * MIB // _UNSEEN_SHARE
        if placed.sandbox is not None:
            hidden += placed.sandbox.files.drafted_bytes
        share = max((size + hidden) / MIB, inodes / INODES_PER_MB) / limit_mb
        if placed.sandbox is not None:
            placed.sandbox.files.is_full = share > 1
            placed.sandbox.unnamed_disk_bytes = held.unnamed_bytes
        return share, f"{(size + hidden) // MIB} MiB in {inodes} files of {limit_mb} MiB"

    async def _measure_volumes(self) -> tuple[float, list[str]]:
        """The part of its limit that the fullest volume uses, and those over theirs, in words."""
        if not self._watched:
            return 0.0, []
        limit_mb = self._context.config.volume_size_mb
        sizes = await self._fence.tree_operations.measure_all(self._watched)
        over: list[str] = []
        shares = [0.0]
        for found in sizes:
            size, inodes = found or (0, 0)
            shares.append(max(size / MIB, inodes / INODES_PER_MB) / limit_mb)
            if shares[-1] > 1:
                used = f"{size // MIB} MiB in {inodes} files of {limit_mb} MiB"
                over.append(f"a volume: {used}")
        return max(shares), over


def _is_written(placed: Placed) -> bool:
    """Whether a file of the sandbox is open for writing from outside."""
    return placed.sandbox is not None and placed.sandbox.files.is_written


def _kill_holders(cage: Cage, held: OpenFiles) -> str:
    """Kill the processes that hold files without a name or write, or else the busiest one.

    Returns the names of the killed.
    """
    members = cage.members()
    chosen = [pid for pid in dict.fromkeys((*held.holders, *held.writers)) if pid in members]
    if not chosen and members:
        chosen = [max(members, key=processes.ticks)]
    return ", ".join(cage.end_process(pid) for pid in chosen[:MAX_KILLED])
