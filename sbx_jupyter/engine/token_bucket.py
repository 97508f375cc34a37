"""A token bucket, which limits how often something happens."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class TokenBucket:
    """Holds up to ``burst`` tokens, all of them at first, and gains ``per_second`` tokens."""

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock()

    @property
    def is_full(self) -> bool:
        """Whether nothing was taken for so long that all tokens are back."""
        self._fill()
        return self._tokens >= self._burst

    def try_take(self, count: int = 1) -> bool:
        """Take ``count`` tokens; ``False`` if there are fewer, which then stay."""
        self._fill()
        if self._tokens < count:
            return False
        self._tokens -= count
        return True

    async def take(self) -> None:
        """Take one token, and wait for it if there is none."""
        self._fill()
        while self._tokens < 1:
            await asyncio.sleep((1 - self._tokens) / self._per_second)
            self._fill()
        self._tokens -= 1

    def _fill(self) -> None:
        now = self._clock()
        gained = (now - self._filled_at) * self._per_second
        self._tokens = min(self._burst, self._tokens + gained)
        self._filled_at = now
