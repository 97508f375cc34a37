"""Lets something happen so many times a second and no more."""

from __future__ import annotations

import asyncio
import time


class Pace:
    """A bucket that fills at ``per_second`` up to ``burst``; each turn takes one out."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = float(burst)
        self._at = time.monotonic()

    async def turn(self) -> None:
        """Wait until the next turn may be taken."""
        self._fill()
        while self._left < 1:
            await asyncio.sleep((1 - self._left) / self._per_second)
            self._fill()
        self._left -= 1

    def _fill(self) -> None:
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
