"""How an engine stops: what was begun is finished, then the sandboxes are ended or left alone."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.assembly import Parts
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.engine.templates.builds.builder import Builder

_log = logging.getLogger(__name__)

_TIMEOUT: Final = 60.0


async def shut_down(parts: Parts, builder: Builder, *, kill_sandboxes: bool) -> None:
    """Stop all parts; end all sandboxes but those paused on disk, or let go of them."""
    await parts.context.expiry.stop()
    await parts.sampler.stop()
    await parts.watchdog.stop()
    await builder.stop()
    # What was begun is finished first, so that no sandbox appears behind our back.
    await parts.context.tasks.drain(_TIMEOUT)
    await parts.pool.stop()
    reached("stop.drained")
    if kill_sandboxes:
        await asyncio.gather(*(_stop(parts, slot) for slot in parts.context.slots))
    await parts.context.tasks.drain(_TIMEOUT)
    reached("stop.ended")
    for slot in parts.context.slots:
        await _leave(parts, slot)


async def _stop(parts: Parts, slot: Slot) -> None:
    async with slot.lock:
        try:
            if slot.state is State.RUNNING:
                await parts.supervisor.end(slot, "stopped")
            elif slot.state is State.PAUSED and slot.placed is not None:
                await parts.supervisor.drop_memory(slot, "the engine stops")
        except (SbxError, OSError):
            _log.exception("sandbox %s could not be ended", slot.sandbox_id)


async def _leave(parts: Parts, slot: Slot) -> None:
    """Let go of a sandbox without ending it."""
    async with slot.lock:
        if slot.guard is not None:
            slot.guard.cancel()
        if slot.placed is not None:
            parts.context.placement.leave(slot.placed)
