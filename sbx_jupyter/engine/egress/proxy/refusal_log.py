"""Writes what was refused to the logs of sandboxes, as often as is of use and no more.

A program can be refused thousands of times a second; its log is on the engine's disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sbx_jupyter.engine.state.logs import Level

Log = Callable[[str, Level, str, Mapping[str, str]], None]
"""Sandbox id, level, message and fields."""

BURST: Final = 20
_PER_SECOND: Final = 0.2
_MAX_TARGET: Final = 300


@dataclass(slots=True)
class _Budget:
    left: float = BURST
    at: float = field(default_factory=time.monotonic)
    skipped: int = 0


class RefusalLog:
    """Some entries at once, then one every five seconds that says how many were left out."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._budgets: dict[str, _Budget] = {}

    def note(self, sandbox_id: str, target: str, reason: str) -> None:
        """Log a refusal, or count it."""
        now = self._clock()
        budget = self._budgets.setdefault(sandbox_id, _Budget(at=now))
        budget.left = min(BURST, budget.left + (now - budget.at) * _PER_SECOND)
        budget.at = now
        if budget.left < 1:
            budget.skipped += 1
            return
        budget.left -= 1
        fields = {"target": target[:_MAX_TARGET]}
        if budget.skipped:
            fields["not_logged"] = str(budget.skipped)
            budget.skipped = 0
        self._log(sandbox_id, "warn", f"Egress refused: {reason}", fields)

    def forget(self, sandbox_id: str) -> None:
        """Drop what is known of a sandbox that ended."""
        self._budgets.pop(sandbox_id, None)
