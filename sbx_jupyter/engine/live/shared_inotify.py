"""The one inotify instance of a sandbox, read for all of its watchers.

Watchers of one directory share its watch. A watch ends when nobody needs it, so the agent must not
add a watch for somebody while one is ended for somebody else: the two take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Protocol

from sbx_jupyter.engine.live import inotify
from sbx_jupyter.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Receiver(Protocol):
    """Receives the events of an inotify instance."""

    def receive(self, events: list[inotify.KernelEvent]) -> None:
        """Take the events it needs from the latest ones."""
        ...

    def fail(self, error: InternalError) -> None:
        """There will be no further events."""
        ...


class SharedInotify:
    """Reads an instance while there is one, and gives each event to every receiver."""

    def __init__(self) -> None:
        self._fd = -1
        self._receivers: set[Receiver] = set()
        self._turns = asyncio.Condition()
        self._adding = 0
        self._is_ending = False

    def open(self, fd: int) -> None:
        """Read ``fd`` from now on, which is closed if one is read already."""
        if self._fd >= 0:
            os.close(fd)
            return
        self._fd = fd
        asyncio.get_running_loop().add_reader(fd, self.read)

    def close(self) -> None:
        """Read no longer; may be called more than once."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def add(self, receiver: Receiver) -> None:
        """Add a receiver of events."""
        self._receivers.add(receiver)

    def discard(self, receiver: Receiver) -> None:
        """Remove a receiver of events."""
        self._receivers.discard(receiver)

    def read(self) -> None:
        """Read the events that the kernel has by now, and pass them to all receivers."""
        try:
            while self._fd >= 0 and (events := inotify.read(self._fd)):
                for receiver in list(self._receivers):
                    receiver.receive(events)
        except (OSError, InternalError) as error:
            self.close()
            for receiver in list(self._receivers):
                receiver.fail(InternalError(f"the watch broke: {error}"))

    @contextlib.asynccontextmanager
    async def adding(self) -> AsyncGenerator[None]:
        """A turn to add watches in the agent: several at once, but none while watches are ended."""
        async with self._turns:
            await self._turns.wait_for(lambda: not self._is_ending)
            self._adding += 1
        try:
            yield
        finally:
            self._adding -= 1
            if not self._adding:
                await asyncio.shield(self._wake())

    @contextlib.asynccontextmanager
    async def ending(self) -> AsyncGenerator[None]:
        """A turn to end watches in the agent, after those that are being added."""
        async with self._turns:
            await self._turns.wait_for(lambda: not self._is_ending)
            self._is_ending = True
        try:
            async with self._turns:
                await self._turns.wait_for(lambda: not self._adding)
            yield
        finally:
            self._is_ending = False
            await asyncio.shield(self._wake())

    async def _wake(self) -> None:
        async with self._turns:
            self._turns.notify_all()
