"""Takes the readings of all sandboxes at an interval, and stores changes that are not urgent.

What a sandbox uses in which no process runs stays the same, so its last reading is repeated.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import random
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.watch.activity import ActivityReader
from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.platform import SandboxMetric

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.sandboxes.creation import TemplateUses
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.protocol.runtime import Reading

_log = logging.getLogger(__name__)

_PRUNE_INTERVAL: Final = 3600.0
_READ_TIMEOUT: Final = 2.0
_AT_ONCE: Final = 8
_IDLE_INTERVAL: Final = 900.0
"""Seconds after which an idle sandbox is read again: the kernel may have taken back its cache."""


class _Taken(NamedTuple):
    """A reading that was taken, and not repeated."""

    sandbox: Sandbox
    work_ns: int | None
    """The processor time before it."""
    until: float
    """Time from which it is too old to be repeated, by the monotonic clock."""


class Sampler:
    """Takes a reading of every running sandbox at an interval, and keeps the readings."""

    def __init__(self, context: Context, uses: TemplateUses) -> None:
        self._context = context
        self._uses = uses
        self._activity = ActivityReader()
        self._taken: dict[str, _Taken] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._task: asyncio.Task[None] | None = None
        self._pruned_at = 0.0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sbx-sampler")

    async def stop(self) -> None:
        """Stop, and store the last readings."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._write(every=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + self._context.config.metrics_interval, loop.time())
            await asyncio.sleep(due - loop.time())
            await self.sample()
            await self._write()

    async def sample(self) -> None:
        """Take a reading of each running sandbox, or repeat the last one of those that rest."""
        running = [
            (slot, placed.sandbox)
            for slot in self._context.slots
            if slot.state is State.RUNNING
            and (placed := slot.placed) is not None
            and placed.sandbox is not None
        ]
        cages = [sandbox.cage for _, sandbox in running]
        activity = await asyncio.to_thread(self._activity.read, cages)
        now, at = time.monotonic(), time.time()
        taken, self._taken = self._taken, {}
        reads: list[Coroutine[None, None, None]] = []
        for slot, sandbox in running:
            work_ns = activity[sandbox.cage].work_ns
            last = taken.get(slot.sandbox_id)
            if last is not None and self._repeat(last, sandbox, work_ns, now, at):
                self._taken[slot.sandbox_id] = last
            else:
                reads.append(self._read(slot, sandbox, work_ns))
        await asyncio.gather(*reads)

    def _repeat(
        self, last: _Taken, sandbox: Sandbox, work_ns: int | None, now: float, at: float
    ) -> bool:
        """Repeat the last reading, unless something may have changed since."""
        if last.sandbox is not sandbox or work_ns is None or work_ns != last.work_ns:
            return False
        if now >= last.until or sandbox.files.is_written:
            return False
        if not self._context.history.repeat(sandbox.sandbox_id, at):
            return False
        sandbox.note_idle()
        return True

    async def _read(self, slot: Slot, sandbox: Sandbox, work_ns: int | None) -> None:
        try:
            async with self._room, asyncio.timeout(_READ_TIMEOUT):
                reading = await sandbox.read_metrics()
            await self._note_oom(slot, sandbox.cage.oom_kills())
        except (SbxError, OSError, TimeoutError) as error:
            _log.debug("no reading: %s", error, extra={"sandbox_id": slot.sandbox_id})
            return
        if slot.state is State.RUNNING:
            self._context.history.add(slot.sandbox_id, _to_metric(reading))
            # Not all are to be read again at the same time.
            until = time.monotonic() + _IDLE_INTERVAL * random.uniform(0.5, 1)
            self._taken[slot.sandbox_id] = _Taken(sandbox, work_ns, until)

    async def _note_oom(self, slot: Slot, kills: int) -> None:
        if kills <= slot.oom_kills:
            return
        self._context.meters.oom_kills.inc(kills - slot.oom_kills)
        slot.oom_kills = kills
        entry = logs.entry(
            slot.sandbox_id, "warn", "A process was killed: out of memory", kills=str(kills)
        )
        await self._context.commit(Batch().log(entry))

    async def _write(self, *, every: bool = False) -> None:
        context = self._context
        try:
            unwritten = context.history.take_unwritten(every=every)
            await asyncio.to_thread(context.history.write, unwritten)
            batch = self._late_changes()
            if batch.puts or batch.forget_logs_before is not None:
                await context.commit(batch)
        except (SbxError, OSError) as error:
            _log.warning("readings and counters could not be written: %s", error)

    def _late_changes(self) -> Batch:
        """Collect the changes that are stored at intervals: spawn counts and old logs to remove."""
        batch = Batch()
        for template_id, (count, at) in self._uses.counts.items():
            template = self._context.store.templates.get(template_id)
            if template is not None:
                count += template.spawn_count
                batch.put(replace(template, spawn_count=count, last_spawned_at=at))
        self._uses.counts.clear()
        if time.monotonic() - self._pruned_at > _PRUNE_INTERVAL or self._pruned_at == 0.0:
            self._pruned_at = time.monotonic()
            batch.forget_logs_before = dt.datetime.now(dt.UTC) - logs.RETENTION
            batch.keep_logs = logs.MAX_PER_SANDBOX
        return batch


def _to_metric(reading: Reading) -> SandboxMetric:
    at = dt.datetime.now(dt.UTC)
    return SandboxMetric(
        timestamp=at,
        timestamp_unix=int(at.timestamp()),
        cpu_count=reading.cpu_count,
        cpu_used_pct=reading.cpu_used_pct,
        mem_used=reading.mem_used,
        mem_total=reading.mem_total,
        mem_cache=reading.mem_cache,
        disk_used=reading.disk_used,
        disk_total=reading.disk_total,
    )
