"""Decides whose build runs next, when more builds wait than may run at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class BuildTurns:
    """Lets a number of builds run at once, and shares them out among owners.

    The next one is of the owner of whom fewest run, of those of the owner whose last turn is the
    longest ago, and of that owner the one that waited longest. So an owner with many builds holds
    up others by those that run already, not by those that wait.
    """

    def __init__(self, most: int) -> None:
        """``most`` builds run at once, 1 or more."""
        self._most = most
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._turn = 0
        self._last: dict[str, int] = {}
        """The last turn of each owner whose builds run or wait."""

    @contextlib.asynccontextmanager
    async def turn(self, owner: str) -> AsyncGenerator[None]:
        """Wait for a turn of ``owner``; the next build has its turn when the context ends."""
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((owner, called))
        self._call()
        try:
            await called
            yield
        finally:
            if called.cancelled():
                self._waiting = [waiter for waiter in self._waiting if waiter[1] is not called]
            else:
                self._running -= Counter((owner,))  # which forgets owners of whom none runs
                self._call()
            known = {*self._running, *(waiter[0] for waiter in self._waiting)}
            self._last = {name: turn for name, turn in self._last.items() if name in known}

    def _call(self) -> None:
        """Call those whose turn it is, but for those that were cancelled and have not left yet."""
        while self._running.total() < self._most:
            waiting = [waiter for waiter in self._waiting if not waiter[1].cancelled()]
            if not waiting:
                return
            # The first one of equals, which is the one that waited longest.
            chosen = min(waiting, key=self._rank)
            self._waiting.remove(chosen)
            self._running[chosen[0]] += 1
            self._turn += 1
            self._last[chosen[0]] = self._turn
            chosen[1].set_result(None)

    def _rank(self, waiter: tuple[str, asyncio.Future[None]]) -> tuple[int, int]:
        owner, _ = waiter
        return self._running[owner], self._last.get(owner, 0)
