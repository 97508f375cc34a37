"""Logs refused connections in the logs of sandboxes, at a limited rate.

A program can be refused thousands of times a second, and the logs are on the engine's disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sbx_jupyter.engine.state.logs import Level
from sbx_jupyter.engine.token_bucket import TokenBucket

Log = Callable[[str, Level, str, Mapping[str, str]], None]
"""Sandbox id, level, message and fields."""

BURST: Final = 20
_PER_SECOND: Final = 0.2
_MAX_TARGET: Final = 300


@dataclass(slots=True)
class _Budget:
    """Limits the logged refusals of one sandbox, and counts those that were skipped."""

    bucket: TokenBucket
    skipped: int = 0


class RefusalLog:
    """Logs 20 refusals of a sandbox at once, then one every 5 seconds with the number skipped."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._budgets: dict[str, _Budget] = {}

    def note(self, sandbox_id: str, target: str, reason: str) -> None:
        """Log a refused connection, or only count it."""
        if (budget := self._budgets.get(sandbox_id)) is None:
            bucket = TokenBucket(_PER_SECOND, BURST, self._clock)
            budget = self._budgets[sandbox_id] = _Budget(bucket)
        if not budget.bucket.try_take():
            budget.skipped += 1
            return
        fields = {"target": target[:_MAX_TARGET]}
        if budget.skipped:
            fields["not_logged"] = str(budget.skipped)
            budget.skipped = 0
        self._log(sandbox_id, "warn", f"Egress refused: {reason}", fields)

    def forget(self, sandbox_id: str) -> None:
        """Drop the budget of a sandbox that ended."""
        self._budgets.pop(sandbox_id, None)
