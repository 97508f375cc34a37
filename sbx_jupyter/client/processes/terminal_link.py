"""Connects a terminal to a front end: keys and sizes in, numbered output out."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from sbx_jupyter.client.api.runtime import KEEPALIVE_INTERVAL
from sbx_jupyter.client.cleanup import shielded
from sbx_jupyter.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator

    from sbx_jupyter.client.processes.pty import PtyHandle, PtyOutput
    from sbx_jupyter.protocol.runtime import EndEvent

PIECE: Final = 64 * 1024
LIMIT: Final = 4 * 1024 * 1024


class TerminalInput:
    """A bounded queue of keys, and the latest size of the terminal.

    A size does not wait for the keys before it, so that the terminal can be resized while its
    program does not read its input.
    """

    def __init__(self) -> None:
        self._keys = bytearray()
        self._has_keys = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._size: tuple[int, int] | None = None
        self._has_size = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether ``put`` would wait."""
        return not self._has_room.is_set()

    async def put(self, keys: bytes) -> None:
        """Add keys; waits while more than ``LIMIT`` bytes have not been taken."""
        await self._has_room.wait()
        self._keys += keys
        self._has_keys.set()
        if len(self._keys) > LIMIT:
            self._has_room.clear()

    def resize(self, cols: int, rows: int) -> None:
        """Set the size to pass on; replaces one that was not taken yet."""
        self._size = (cols, rows)
        self._has_size.set()

    async def take(self) -> bytes:
        """Wait for keys and return up to ``PIECE`` bytes of them."""
        await self._has_keys.wait()
        piece = bytes(self._keys[:PIECE])
        del self._keys[:PIECE]
        if not self._keys:
            self._has_keys.clear()
        if len(self._keys) <= LIMIT:
            self._has_room.set()
        return piece

    async def take_size(self) -> tuple[int, int]:
        """Wait for a change of size and return the columns and rows."""
        await self._has_size.wait()
        self._has_size.clear()
        assert self._size is not None
        return self._size


async def run_terminal_link(
    terminal: PtyHandle,
    given: TerminalInput,
    deliver: Callable[[PtyOutput], Awaitable[None]],
) -> EndEvent | None:
    """Copy in both directions until the shell ends; return how it ended.

    ``deliver`` is awaited for each piece of output, so that a slow receiver slows the terminal.
    When one direction fails, the other is cancelled and the error is raised.
    """
    copiers = [
        asyncio.create_task(_copy_output(terminal, deliver)),
        asyncio.create_task(_copy_keys(given, terminal)),
        asyncio.create_task(_copy_sizes(given, terminal)),
    ]
    try:
        done, _ = await asyncio.wait(copiers, return_when=asyncio.FIRST_COMPLETED)
        for copier in done:
            copier.result()
    finally:
        for copier in copiers:
            copier.cancel()
        with shielded():
            await asyncio.gather(*copiers, return_exceptions=True)
    return terminal.end


async def _copy_output(
    terminal: PtyHandle, deliver: Callable[[PtyOutput], Awaitable[None]]
) -> None:
    async for output in terminal:
        await deliver(output)


async def _copy_keys(given: TerminalInput, terminal: PtyHandle) -> None:
    if terminal.is_local:  # one request for all keys: each would cost more than the rest of its way
        with _ignoring_ended_shell():
            await terminal.send_all(_pieces(given))
    while True:
        keys = await given.take()
        with _ignoring_ended_shell():
            await terminal.send(keys)


async def _pieces(given: TerminalInput) -> AsyncIterator[bytes]:
    """Yield what is typed, and an empty piece after ``KEEPALIVE_INTERVAL`` seconds of nothing."""
    while True:
        try:
            yield await asyncio.wait_for(given.take(), KEEPALIVE_INTERVAL)
        except TimeoutError:
            yield b""


async def _copy_sizes(given: TerminalInput, terminal: PtyHandle) -> None:
    while True:
        cols, rows = await given.take_size()
        with _ignoring_ended_shell():
            await terminal.resize(cols, rows)


@contextlib.contextmanager
def _ignoring_ended_shell() -> Generator[None]:
    """Ignore that the shell has just ended: its end event follows in the output."""
    with contextlib.suppress(NotFoundError):
        yield
