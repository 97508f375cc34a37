"""The timer of all sandboxes: a heap of end times and one task that waits for the earliest."""

from __future__ import annotations

import asyncio
import heapq
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_SLEEP: Final = 30.0
"""Seconds. The clock of the event loop stands still while the machine sleeps."""


class Expiry:
    """Calls back when a sandbox reaches its end time."""

    def __init__(self, on_expired: Callable[[str], None]) -> None:
        self._on_expired = on_expired
        self._heap: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sbx-expiry")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def schedule(self, sandbox_id: str, at: float) -> None:
        """Expire the sandbox at Unix time ``at``; replaces the time scheduled before.

        The delay is computed now: setting the clock later changes nothing.
        """
        delay = at - time.time()
        at = _boot_time() + delay  # read second: a pause in between makes it late, never early
        self._due[sandbox_id] = at
        heapq.heappush(self._heap, (at, sandbox_id))
        if self._heap[0] == (at, sandbox_id):
            self._changed.set()
        if len(self._heap) > 64 + 4 * len(self._due):
            # Replaced entries are dropped when they are due, or here when they are the majority.
            self._heap = [(at, sandbox_id) for sandbox_id, at in self._due.items()]
            heapq.heapify(self._heap)

    def is_scheduled(self, sandbox_id: str) -> bool:
        """Whether an end time of the sandbox is still to come."""
        return sandbox_id in self._due

    def cancel(self, sandbox_id: str) -> None:
        """Cancel the expiry of the sandbox, if one is scheduled."""
        self._due.pop(sandbox_id, None)

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            delay = self._fire_due()
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _fire_due(self) -> float | None:
        """Call back for all due sandboxes; return the seconds to the next, ``None`` for none."""
        while self._heap:
            at, sandbox_id = self._heap[0]
            if self._due.get(sandbox_id) != at:
                heapq.heappop(self._heap)
                continue
            remaining = at - _boot_time()
            if remaining > 0:
                return min(remaining, _LONGEST_SLEEP)
            heapq.heappop(self._heap)
            del self._due[sandbox_id]
            self._on_expired(sandbox_id)
        return None


def _boot_time() -> float:
    """Seconds since the machine started, those that it slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
