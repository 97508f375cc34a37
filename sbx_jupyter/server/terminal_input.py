"""What a browser wants of a terminal: keys and sizes, held until the sandbox takes them."""

from __future__ import annotations

import asyncio
from typing import Final

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
