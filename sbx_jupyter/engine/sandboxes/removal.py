"""Ends sandboxes: first the processes, then the row, then the files."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Literal

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.rows import LogRow, RequestRow, SandboxRow
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.engine.watch.meters import metered
from sbx_jupyter.errors import NoSpaceError, SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.slots import Slot

_log = logging.getLogger(__name__)

_RETRY_DELAY: Final = 1.0

Reason = Literal["killed", "timeout", "lost", "stopped"]

_ENDED: Final[dict[Reason, tuple[logs.Level, str]]] = {
    "killed": ("info", "Sandbox killed"),
    "timeout": ("info", "Sandbox timed out and was killed"),
    "lost": ("error", "Sandbox lost"),
    "stopped": ("info", "Sandbox killed, the engine stops"),
}


class Removal:
    """Ends the sandboxes that have a slot. Callers hold the slot's lock."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @metered("kill")
    async def end(self, slot: Slot, reason: Reason, detail: str = "") -> None:
        """End a sandbox in any state and remove its row; its files go in the background.

        ``detail`` is added to the log entry as the field ``reason``.
        """
        if slot.state is not State.KILLING:
            slot.change_state(State.KILLING)
        self._context.expiry.cancel(slot.sandbox_id)
        reached("kill.decided")
        self._context.meters.sandbox_ended(reason)
        await self.end_processes(slot)
        reached("kill.ended")
        level, message = _ENDED[reason]
        fields = {"reason": detail} if detail else {}
        entry = logs.entry(slot.sandbox_id, level, message, **fields)
        await self._forget_and_clean(slot, entry)

    async def discard(self, slot: Slot) -> None:
        """End a sandbox whose creation failed; its row may be stored already."""
        slot.change_state(State.KILLING)
        self._context.slots.remove(slot)
        await self.end_processes(slot)
        if slot.sandbox_id in self._context.store.sandboxes:
            entry = logs.entry(slot.sandbox_id, "error", "Sandbox could not be started")
            await self._forget_and_clean(slot, entry)
        else:
            await self._context.placement.remove(slot.sandbox_id)

    async def end_processes(self, slot: Slot) -> None:
        """End the processes of a sandbox, if it has any; keep its row and its files."""
        death_task, slot.death_task = slot.death_task, None
        if death_task is not None and death_task is not asyncio.current_task():
            death_task.cancel()
        placed, slot.placed = slot.placed, None
        if placed is not None:
            await self._context.placement.end(placed)
        for hook in self._context.hooks.stopped:
            await hook(slot.sandbox_id)

    async def _forget_and_clean(self, slot: Slot, entry: LogRow) -> None:
        """Remove the row, then the files; again later if the row cannot be removed now."""
        try:
            await self._forget_then_clean(slot, entry)
        except NoSpaceError:
            # The disk is too full to remove the row: remove the files first, then try again.
            self._context.tasks.spawn(self._forget_later(slot, entry), "sbx-forget")
        except SbxError:
            # Its processes are gone and it is no longer shown: with its row it would come back.
            name = f"the row of sandbox {slot.sandbox_id}"
            self._context.removals.add(name, lambda: self._forget_then_clean(slot, entry))
            raise

    async def _forget_then_clean(self, slot: Slot, entry: LogRow) -> None:
        """Remove the row, then the files in the background."""
        await self._forget(slot, entry)
        self._context.cleaning.spawn(self._clean(slot.row), "sbx-clean")

    async def _forget(self, slot: Slot, entry: LogRow) -> None:
        context = self._context
        batch = Batch().remove(SandboxRow, slot.sandbox_id).log(entry)
        for request in context.store.requests:
            if request.sandbox_id == slot.sandbox_id:
                batch.remove(RequestRow, request.key)
        await context.commit(batch)
        reached("kill.stored")
        context.slots.remove(slot)
        context.history.forget(slot.sandbox_id)

    async def _forget_later(self, slot: Slot, entry: LogRow) -> None:
        await self._clean(slot.row)
        while True:
            try:
                return await self._forget(slot, entry)
            except NoSpaceError as error:
                _log.warning("the row of sandbox %s is not removed yet: %s", slot.sandbox_id, error)
                await asyncio.sleep(_RETRY_DELAY)

    async def _clean(self, row: SandboxRow) -> None:
        try:
            await self._context.placement.remove(row.sandbox_id)
            reached("kill.cleaned")
        except (SbxError, OSError):
            _log.exception("the layer of sandbox %s could not be removed", row.sandbox_id)
        await self._context.layers.collect(row.layers)
