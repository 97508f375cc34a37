"""Chooses the processors that sandboxes are bound to, where no control group shares out time."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

AFFINITY: Final = "affinity"
"""The name of this way of limiting processor time in an ``IsolationReport``."""


class ProcessorAllocator:
    """Chooses the processors that the fewest sandboxes have, by turns where several do."""

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, count: int, pids: Iterable[int]) -> list[int]:
        """``count`` processors of this machine, or all; ``pids`` are of the other sandboxes."""
        usable = sorted(os.sched_getaffinity(0))
        load = dict.fromkeys(usable, 0)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                for processor in os.sched_getaffinity(pid):
                    load[processor] = load.get(processor, 0) + 1
        turn = self._turn % len(usable)
        self._turn += count
        by_turns = usable[turn:] + usable[:turn]
        return sorted(sorted(by_turns, key=lambda processor: load[processor])[:count])
