"""Measures what one sandbox uses: processor, memory and disk (interface 4.3)."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.live import descriptors
from sbx_jupyter.engine.live.agent import convert_body
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.isolation.kernel import subvolumes
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol.runtime import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.engine.live.agent import AgentCaller
    from sbx_jupyter.isolation.fence import Cage
    from sbx_jupyter.isolation.fence_spec import Limits

_MIB: Final = 1024 * 1024
_SHORTEST_INTERVAL: Final = 0.2
"""Seconds between two readings below which the use of the processor would be too inexact."""

_DISK_INTERVAL: Final = 10.0
_IDLE_INTERVAL: Final = 60.0
"""Seconds between two counts of the disk while no process of the sandbox ran."""
_EXACT_IDLE_INTERVAL: Final = 3600.0
"""The same where a control group counts the processor time, of which nothing is missed."""

_FIRST_DISK_WAIT: Final = 0.5


class _AgentUsage(msgspec.Struct, frozen=True):
    """Usage as the agent measured it, for machines without control groups."""

    cpu_ns: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _DiskUsage:
    used: int
    total: int


class MetricsReader:
    """Takes the readings of one sandbox; slow measurements run in threads."""

    def __init__(
        self,
        agent: AgentCaller,
        cage: Cage,
        limits: Limits,
        hidden: Callable[[], tuple[int, int]] = lambda: (0, 0),
        is_written: Callable[[], bool] = lambda: False,
    ) -> None:
        """``hidden`` gives the bytes of memory and disk that only the watchdog sees.

        ``is_written`` says whether files are written from outside of the sandbox.
        """
        self._agent = agent
        self._hidden = hidden
        self._is_written = is_written
        self._cage = cage
        self._cpu_count = limits.cpu_count or os.cpu_count() or 1
        self._memory_total = limits.memory_mb * _MIB or _machine_memory()
        self._disk_limit = limits.disk_mb * _MIB
        self._cpu_ns: int | None = None
        self._cpu_time = 0.0
        self._cpu_pct = 0.0
        self._disk: _DiskUsage | None = None
        self._disk_time = 0.0
        self._disk_cpu_ns: int | None = None
        self._disk_count: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks()

    async def start(self) -> None:
        """Note the processor time so far, which the first reading is compared with."""
        cpu_ns, _, _ = await self._usage()
        self._set_cpu(cpu_ns, time.monotonic())

    async def read(self) -> Reading:
        """Take a reading; raises ``UnavailableError`` when the sandbox does not answer.

        ``cpu_used_pct`` is the use of the processor since the last reading, 100 for each core.
        Memory excludes the page cache. Disk is the size of the writable layer, counted at most
        every ten seconds where no quota counts it, with what is held without a name.
        """
        cpu_ns, memory, cache = await self._usage()
        self._set_cpu(cpu_ns, time.monotonic())
        disk = await self._read_disk(cpu_ns)
        hidden_memory, hidden_disk = self._hidden()
        memory += hidden_memory
        return Reading(
            ts=int(time.time()),
            cpu_count=self._cpu_count,
            cpu_used_pct=self._cpu_pct,
            mem_total_mib=self._memory_total // _MIB,
            mem_used_mib=memory // _MIB,
            mem_total=self._memory_total,
            mem_used=memory,
            mem_cache=cache,
            disk_used=disk.used + hidden_disk,
            disk_total=disk.total,
            cpu_ns=cpu_ns,
        )

    def note_idle(self) -> None:
        """Note that no process has run since the last reading."""
        self._cpu_pct, self._cpu_time = 0.0, time.monotonic()

    def close(self) -> None:
        """Stop a count that runs in the background."""
        self._tasks.cancel()

    async def _usage(self) -> tuple[int, int, int]:
        """Processor time in ns, memory without cache, cache."""
        if (usage := self._cage.usage()) is not None:
            memory = max(0, usage.memory_bytes - usage.cache_bytes)
            return usage.cpu_ns, memory, usage.cache_bytes
        reply = await self._agent.call(ops.USAGE, timeout=5)
        descriptors.close_all(reply.fds)
        own = convert_body(reply.body, _AgentUsage)
        return own.cpu_ns, own.memory_bytes, 0

    def _set_cpu(self, cpu_ns: int, now: float) -> None:
        if self._cpu_ns is not None:
            elapsed = now - self._cpu_time
            if elapsed < _SHORTEST_INTERVAL:
                return
            used = (cpu_ns - self._cpu_ns) / 1e9 / elapsed * 100
            # The counter can go back where it is a sum over processes that end.
            self._cpu_pct = round(min(max(used, 0.0), 100.0 * self._cpu_count), 2)
        self._cpu_ns, self._cpu_time = cpu_ns, now

    async def _read_disk(self, cpu_ns: int) -> _DiskUsage:
        age = time.monotonic() - self._disk_time
        is_stale = self._disk is None or age > self._disk_interval(cpu_ns)
        if is_stale and self._disk_count is None:
            self._disk_cpu_ns = None if self._is_written() else cpu_ns
            self._disk_count = self._tasks.spawn(self._count_disk())
        if self._disk is None and self._disk_count is not None:
            await asyncio.wait([self._disk_count], timeout=_FIRST_DISK_WAIT)
        return self._disk or _DiskUsage(0, self._disk_limit)

    def _disk_interval(self, cpu_ns: int) -> float:
        if cpu_ns != self._disk_cpu_ns:
            return _DISK_INTERVAL
        return _IDLE_INTERVAL if self._cage.work_ns() is None else _EXACT_IDLE_INTERVAL

    async def _count_disk(self) -> None:
        try:
            usage = await asyncio.to_thread(_disk_usage, self._cage, self._disk_limit)
            self._disk = usage or self._disk or _DiskUsage(0, self._disk_limit)
            self._disk_time = time.monotonic()
        finally:
            self._disk_count = None


def _machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _disk_usage(cage: Cage, limit: int) -> _DiskUsage | None:
    """The size of the writable layer; the total is the limit or else the disk. Blocking."""
    writable = cage.writable
    try:
        status = os.statvfs(writable)
        # A subvolume has a device of its own, and all space of the disk.
        other_device = os.stat(writable).st_dev != os.stat(writable.parent).st_dev
        has_own_disk = other_device and not subvolumes.is_subvolume(writable)
    except OSError:
        return None
    if (quota := subvolumes.read_quota(writable)) is not None:
        return _DiskUsage(quota.used, quota.limit)
    size = status.f_blocks * status.f_frsize
    if has_own_disk:  # its numbers are exact and cost nothing
        return _DiskUsage(size - status.f_bfree * status.f_frsize, size)
    used = cage.count_disk()
    return None if used is None else _DiskUsage(used, limit or size)
