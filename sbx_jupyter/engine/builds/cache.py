"""Which steps need not run again: what they made before, by what they depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.records import StepRow, now

if TYPE_CHECKING:
    from sbx_jupyter.engine.store import Batch, Store

_MAX_STEPS: Final = 500


class StepCache:
    """Finds the layers of steps in the store, and forgets the ones that were not used for long."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, key: str) -> StepRow | None:
        """What a step made before."""
        return self._store.steps.get(key)

    def note(self, batch: Batch, used: list[StepRow]) -> tuple[str, ...]:
        """Keep new and used rows, evict the oldest; the layers that may be of no use now."""
        at = now()
        for row in used:
            batch.put(replace(row, used_at=at))
        fresh = {row.key for row in used}
        others = [row for row in self._store.steps if row.key not in fresh]
        others.sort(key=lambda row: row.used_at, reverse=True)
        layers: list[str] = []
        for row in others[max(0, _MAX_STEPS - len(fresh)) :]:
            batch.remove(StepRow, row.key)
            layers.extend((*row.layers, *row.below))
        return tuple(layers)
