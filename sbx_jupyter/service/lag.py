"""How late the event loop is: what a blocking call anywhere does to everybody."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from prometheus_client import CollectorRegistry, Histogram

_INTERVAL: Final = 1.0
_KEPT: Final = 15
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class LoopLag:
    """Asks to be called once a second and looks how much later it is."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seen: deque[float] = deque(maxlen=_KEPT)
        self._lateness = Histogram(
            "sbx_event_loop_lateness_seconds",
            "How much later than asked for the event loop came to a call.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._timer: asyncio.TimerHandle | None = None

    @property
    def worst(self) -> float:
        """The longest in the last calls, in seconds."""
        return max(self._seen, default=0.0)

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._ask(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _INTERVAL
        self._timer = loop.call_at(due, self._called, loop, due)

    def _called(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        lateness = max(0.0, loop.time() - due)
        self._seen.append(lateness)
        self._lateness.observe(lateness)
        self._ask(loop)
