"""Counts for monitoring the engine: sandboxes by state, processes and watches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbx_jupyter.engine.sandboxes.lifecycle import State

if TYPE_CHECKING:
    from sbx_jupyter.engine.sandboxes.slots import Slots
    from sbx_jupyter.engine.state.rows import SandboxRow

_ALWAYS: tuple[str, ...] = ("running", "paused_full", "paused_filesystem")


@dataclass(frozen=True, slots=True)
class Gauges:
    """The counts of one moment."""

    sandboxes: dict[str, int]
    """Sandboxes by state; paused ones are split by whether their memory is kept."""
    ready: int
    """Sandboxes that are ready in the pool."""
    processes: int
    """Running processes that clients started."""
    watchers: int


def count_sandboxes(slots: Slots, ready: int) -> Gauges:
    """Count what there is, with ``ready`` sandboxes in the pool; fast enough for every second."""
    states: Counter[str] = Counter(dict.fromkeys(_ALWAYS, 0))
    states.update(_state(slot.row) for slot in slots)
    open_ones = [slot.placed.sandbox for slot in slots if slot.placed and slot.placed.sandbox]
    return Gauges(
        sandboxes=dict(states),
        ready=ready,
        processes=sum(len(sandbox.processes.list()) for sandbox in open_ones),
        watchers=sum(len(sandbox.watchers) for sandbox in open_ones),
    )


def _state(row: SandboxRow) -> str:
    return f"paused_{row.pause_mode}" if row.state is State.PAUSED else row.state.value
