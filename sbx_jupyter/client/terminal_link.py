"""A terminal joined to whoever shows it: keys and sizes in, numbered output out."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from sbx_jupyter.client.pty import PtyHandle, PtyOutput
    from sbx_jupyter.protocol.runtime import EndEvent

PIECE: Final = 64 * 1024
LIMIT: Final = 4 * 1024 * 1024


class TerminalInput:
    """Keys in order, without a gap and bounded; of the sizes only the latest.

    Sizes do not queue behind keys: a program that reads nothing can still be resized.
    """

    def __init__(self) -> None:
        self._keys = bytearray()
        self._has_keys = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._size: tuple[int, int] | None = None
        self._has_size = asyncio.Event()

    async def put(self, keys: bytes) -> None:
        """Add keys; waits while more than ``LIMIT`` bytes have not been taken."""
        await self._has_room.wait()
        self._keys += keys
        self._has_keys.set()
        if len(self._keys) > LIMIT:
            self._has_room.clear()

    def resize(self, cols: int, rows: int) -> None:
        """Ask for a size; replaces one that was not taken yet."""
        self._size = (cols, rows)
        self._has_size.set()

    async def take(self) -> bytes:
        """The next keys, up to ``PIECE`` bytes; waits for some."""
        await self._has_keys.wait()
        piece = bytes(self._keys[:PIECE])
        del self._keys[:PIECE]
        if not self._keys:
            self._has_keys.clear()
        if len(self._keys) <= LIMIT:
            self._has_room.set()
        return piece

    async def take_size(self) -> tuple[int, int]:
        """The latest columns and rows; waits for a change."""
        await self._has_size.wait()
        self._has_size.clear()
        assert self._size is not None
        return self._size


async def run_terminal_link(
    terminal: PtyHandle,
    given: TerminalInput,
    deliver: Callable[[PtyOutput], Awaitable[None]],
) -> EndEvent | None:
    """Copy both ways until the shell ends; how it ended.

    ``deliver`` is awaited for each piece of output, so that a slow receiver slows the terminal.
    Raises the first failure of either direction, and ends the other.
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
        await asyncio.gather(*copiers, return_exceptions=True)
    return terminal.end


async def _copy_output(
    terminal: PtyHandle, deliver: Callable[[PtyOutput], Awaitable[None]]
) -> None:
    async for output in terminal:
        await deliver(output)


async def _copy_keys(given: TerminalInput, terminal: PtyHandle) -> None:
    while True:
        keys = await given.take()
        with _while_it_lives():
            await terminal.send(keys)


async def _copy_sizes(given: TerminalInput, terminal: PtyHandle) -> None:
    while True:
        cols, rows = await given.take_size()
        with _while_it_lives():
            await terminal.resize(cols, rows)


@contextlib.contextmanager
def _while_it_lives() -> Generator[None]:
    """Typing at a shell that has just ended is no error: its end is on the way as output."""
    with contextlib.suppress(NotFoundError):
        yield
