"""Limits the rate of output to a front end, which has no back-pressure."""

from __future__ import annotations

import asyncio
import time
from typing import Final

RATE: Final = 4 * 1024 * 1024
BURST: Final = 1024 * 1024


class RateLimit:
    """Lets ``BURST`` bytes through at once and ``RATE`` bytes per second after that.

    A comm has no back-pressure: without a limit, ``yes`` in a terminal fills the memory of the
    kernel, the server and the browser.
    """

    def __init__(self, rate: float = RATE, burst: float = BURST) -> None:
        self._rate = rate
        self._burst = burst
        self._debt = 0.0
        self._at = time.monotonic()

    async def spend(self, size: int) -> None:
        """Count ``size`` bytes as sent, and wait if that exceeds the limit."""
        now = time.monotonic()
        self._debt = max(0.0, self._debt - (now - self._at) * self._rate) + size
        self._at = now
        if self._debt > self._burst:
            await asyncio.sleep((self._debt - self._burst) / self._rate)
