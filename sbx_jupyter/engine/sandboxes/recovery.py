"""Recovers the sandboxes of the previous engine: adopts them, pauses them or ends them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.sandboxes.placement import limits_for
from sbx_jupyter.engine.sandboxes.slots import Slot
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.rows import LogRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.removal import Removal
    from sbx_jupyter.engine.sandboxes.supervisor import Supervisor

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 16
"""Sandboxes that are taken up at the same time."""

_REMOVAL_TIMEOUT: Final = 1.0
_MAX_LOGS: Final = 100_000


class Recovery:
    """Makes the stored state of every sandbox agree with the processes that still exist."""

    def __init__(self, context: Context, supervisor: Supervisor, removal: Removal) -> None:
        self._context = context
        self._removal = removal
        self._supervisor = supervisor

    async def run(self) -> set[str]:
        """Recover all stored sandboxes; return the ids of those that still have processes."""
        context = self._context
        for row in await context.store.read_logs(now() - logs.RETENTION, _MAX_LOGS):
            context.journal.add(row)
        slots = [Slot(row) for row in context.store.sandboxes]
        await asyncio.to_thread(context.history.load, {slot.sandbox_id for slot in slots})
        for slot in slots:  # all are known, in the order of their rows, before one is taken up
            context.slots.add(slot)
        await self._recover_all(slots)
        return {slot.sandbox_id for slot in context.slots if slot.placed is not None}

    async def _recover_all(self, slots: Iterable[Slot]) -> None:
        """Recover some at a time: each mostly waits for its own agent, which may not answer.

        Raises the first failure, once nothing of this goes on any more.
        """
        waiting = iter(slots)

        async def recover_next() -> None:
            for slot in waiting:
                await self._recover(slot)
                reached("recovery.adopted")

        workers = [asyncio.create_task(recover_next()) for _ in range(_AT_ONCE)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _recover(self, slot: Slot) -> None:
        context, row = self._context, slot.row
        limits = limits_for(row, context.config.default_limits)
        async with slot.lock:
            if row.boot_id == context.boot_id:
                slot.placed = await context.placement.adopt(row, limits)
            reached("recovery.adopting")
            if row.state is State.PAUSING:
                await self._finish_pause(slot)
            elif row.state is State.PAUSED:
                await self._keep_paused(slot)
            elif row.state in (State.RUNNING, State.SNAPSHOTTING):
                await self._keep_running(slot)
            else:
                why = f"the engine stopped while {row.state.value}"
                await self._removal.end(slot, "lost", why)

    async def _finish_pause(self, slot: Slot) -> None:
        await self._removal.end_processes(slot)
        entry = logs.entry(slot.sandbox_id, "info", "Sandbox paused", pause_mode="filesystem")
        await self._store_paused(slot, entry)

    async def _keep_paused(self, slot: Slot) -> None:
        if slot.row.pause_mode != "full":
            return
        if slot.placed is not None:
            await self._refreeze(slot)
            return
        message = "Memory of the paused sandbox lost, its files are kept"
        await self._store_paused(slot, logs.entry(slot.sandbox_id, "error", message))

    async def _refreeze(self, slot: Slot) -> None:
        # The engine may have ended between the thaw of a resume and the commit of its row.
        try:
            await self._supervisor.refreeze(slot)
        except (SbxError, OSError) as error:
            await self._supervisor.drop_memory(slot, f"it cannot be frozen: {error}")
        else:
            self._supervisor.watch(slot)

    async def _keep_running(self, slot: Slot) -> None:
        row = slot.row
        if slot.placed is None:
            if row.end_at <= now() and not row.auto_pause:
                await self._removal.end(slot, "timeout")
            elif row.boot_id == self._context.boot_id:
                await self._supervisor.keep_files(slot, "the sandbox ended without an engine")
            else:
                message = "The machine restarted: the sandbox is paused, its files are kept"
                await self._store_paused(slot, logs.entry(slot.sandbox_id, "warn", message))
            return
        try:
            await self._adopt(slot)
        except (SbxError, OSError) as error:
            await self._supervisor.keep_files(slot, f"it does not answer: {error}")

    async def _adopt(self, slot: Slot) -> None:
        # The engine may have ended between a freeze and the commit of its row.
        await self._supervisor.thaw(slot)
        slot.row = replace(slot.row, state=State.RUNNING)
        self._supervisor.watch(slot)
        _log.info("adopted", extra={"sandbox_id": slot.sandbox_id})

    async def _store_paused(self, slot: Slot, entry: LogRow) -> None:
        row = replace(
            slot.row, state=State.PAUSED, pause_mode="filesystem", end_at=now(), cage=None
        )
        await self._context.commit(Batch().put(row).log(entry))
        slot.row = row

    async def collect(self) -> None:
        """Remove the writable layers and run directories of sandboxes without a row.

        Their processes must have ended. Long removals go on in the background. Directories that the
        store cannot have removed are set aside instead.
        """
        context = self._context
        await asyncio.to_thread(self._set_aside)
        found = await asyncio.to_thread(context.data_dir.found_sandboxes)
        removals = [
            context.cleaning.spawn(self._remove_remains(sandbox_id), "sbx-clean")
            for sandbox_id in found - {row.sandbox_id for row in context.store.sandboxes}
        ]
        if removals:  # usual ones end in time, and one without end does not delay the start
            await asyncio.wait(removals, timeout=_REMOVAL_TIMEOUT)

    def _set_aside(self) -> None:
        quarantine = self._context.quarantine
        for path, reason in quarantine.pending.items():
            quarantine.add(path, "sandbox", reason)
        quarantine.pending.clear()

    async def _remove_remains(self, sandbox_id: str) -> None:
        try:
            await self._context.placement.remove(sandbox_id)
        except (OSError, SbxError):
            _log.exception("the remains of sandbox %s could not be removed", sandbox_id)
