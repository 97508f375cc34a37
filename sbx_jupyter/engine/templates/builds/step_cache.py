"""The step cache: layers of earlier steps, by a key of everything that a step depends on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sbx_jupyter.engine.state.rows import StepRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context

_log = logging.getLogger(__name__)


class StepCache:
    """Finds the layers of steps in the store, and removes the least recently used."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def find(self, key: str) -> StepRow | None:
        """The cached step of a key."""
        return self._store.steps.get(key)

    def note(self, batch: Batch, used: list[StepRow]) -> None:
        """Add the steps that a build made or used to a batch."""
        at = now()
        for row in used:
            batch.put(replace(row, used_at=at))

    async def trim(self) -> None:
        """Remove the least recently used steps when there are too many or they are too large.

        Layers that a template, a sandbox or a running build uses do not count and stay.
        """
        try:
            gone = await self._choose_evicted()
            if not gone:
                return
            batch = Batch()
            for row in gone:
                batch.remove(StepRow, row.key)
            await self._context.commit(batch)
            _log.info("%d build steps are forgotten", len(gone))
            unused = {name for row in gone for name in _stack(row)}
            self._context.cleaning.spawn(self._context.layers.collect(unused), "sbx-collect")
        except SbxError as error:
            # The next build tries again.
            _log.warning("the cache of build steps could not be trimmed: %s", error)

    async def _choose_evicted(self) -> list[StepRow]:
        config, layers = self._context.config, self._context.layers
        rows = sorted(self._store.steps, key=_age)
        sizes = await layers.sizes({name for row in rows for name in _stack(row)})
        kept = layers.used_by_others_than_steps()
        room = config.max_step_cache_bytes
        gone: list[StepRow] = []
        for place, row in enumerate(rows):
            stack = set(_stack(row))
            cost = sum(sizes[name].bytes for name in stack - kept)
            room -= cost
            if layers.is_in_use(stack):
                kept |= stack
            elif place >= config.max_cached_steps or (room < 0 and cost):
                gone.append(row)
            else:
                kept |= stack
        return gone


def _age(row: StepRow) -> tuple[float, int]:
    """Sorts the last used first, and of one build the first steps, which the others need."""
    return -row.used_at.timestamp(), len(row.below)


def _stack(row: StepRow) -> tuple[str, ...]:
    return (*row.layers, *row.below)
