"""Stops an engine: finishes work in progress, then ends the sandboxes or leaves them running."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.assembly import Components
    from sbx_jupyter.engine.sandboxes.slots import Slot

_log = logging.getLogger(__name__)

_TIMEOUT: Final = 4.0
"""Seconds that work in progress gets to end, before and after the sandboxes are ended."""

_CLEANING_TIMEOUT: Final = 1.0
"""Enough for the files of usual sandboxes; the next engine removes what is left."""


async def shut_down(components: Components, *, kill_sandboxes: bool) -> None:
    """Stop all components.

    With ``kill_sandboxes``, end all sandboxes except those paused on disk; else leave them running.
    """
    components.context.operations.close()
    await components.context.expiry.stop()
    await components.sampler.stop()
    await components.watchdog.stop()
    await components.templates.builder.stop()
    # Finish running operations first, so that no sandbox is added after the others were ended.
    await components.context.tasks.drain(_TIMEOUT)
    await components.pool.stop()
    reached("stop.drained")
    if kill_sandboxes:
        await asyncio.gather(*(_stop(components, slot) for slot in components.context.slots))
    await components.context.tasks.drain(_TIMEOUT)
    await components.context.cleaning.drain(_CLEANING_TIMEOUT)
    reached("stop.ended")
    for slot in components.context.slots:
        await _leave(components, slot)


async def _stop(components: Components, slot: Slot) -> None:
    async with slot.lock:
        try:
            if slot.state is State.RUNNING:
                await components.removal.end(slot, "stopped")
            elif slot.state is State.PAUSED and slot.placed is not None:
                await components.supervisor.drop_memory(slot, "the engine stops")
        except (SbxError, OSError):
            _log.exception("sandbox %s could not be ended", slot.sandbox_id)


async def _leave(components: Components, slot: Slot) -> None:
    """Close the connection to a sandbox without ending it."""
    async with slot.lock:
        if slot.death_task is not None:
            slot.death_task.cancel()
        if slot.placed is not None:
            components.context.placement.leave(slot.placed)
