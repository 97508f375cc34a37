"""Remembers, from one pass of a copy to the next, which directory each copied one was made of.

A directory that took the place of another has its name, but none of its files: the change times of
these say nothing, since a rename does not change what is below. Both passes have the same memory
file open. Standard library only, for the zygote.
"""

from __future__ import annotations

import os
import struct
from typing import Final

_PAIR: Final = struct.Struct("<QQ")
_BUFFER: Final = 64 * 1024
_MOST: Final = 1 << 30
"""Bytes of the memory file that are read; a longer one counts as empty."""


class CopiedDirectories:
    """Pairs of inode numbers: of a directory of the copy, and of that which it was made of."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Use the memory file behind ``descriptor``; without one, make a new one."""
        if descriptor is None:
            descriptor = os.memfd_create("sbx-copied-directories")
        self.descriptor = descriptor
        self._noted = bytearray()

    def note(self, copy: int, source: int) -> None:
        """Note which open directory an open directory of the copy was made of."""
        self._noted += _PAIR.pack(os.fstat(copy).st_ino, os.fstat(source).st_ino)
        if len(self._noted) >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write what was noted, for another process. Raises ``OSError``."""
        while self._noted:
            at = os.fstat(self.descriptor).st_size
            del self._noted[: os.pwrite(self.descriptor, self._noted, at)]

    def read(self) -> dict[int, int]:
        """What an earlier pass noted; for a directory that was noted twice, the later."""
        size = os.fstat(self.descriptor).st_size
        if size > _MOST:
            return {}
        found = os.pread(self.descriptor, size, 0)
        return dict(_PAIR.iter_unpack(found[: len(found) // _PAIR.size * _PAIR.size]))

    def close(self) -> None:
        """Close this end; the other process keeps its own."""
        os.close(self.descriptor)
