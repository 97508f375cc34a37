"""Shares the progress of a copy between two processes, and lets the other process cancel it.

Both have the same memory file open, which holds two numbers. Uses the standard library only, for
the zygote.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import Final

_NUMBER: Final = struct.Struct("<Q")
_CANCEL_AT: Final = _NUMBER.size


class Cancelled(OSError):
    """The copy was cancelled."""

    def __init__(self) -> None:
        super().__init__(errno.ECANCELED, os.strerror(errno.ECANCELED))


class Progress:
    """The number of bytes copied, and whether the copy is cancelled."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Share the progress behind ``descriptor``; without one, make a new memory file."""
        if descriptor is None:
            descriptor = os.memfd_create("sbx-progress")
            os.ftruncate(descriptor, 2 * _NUMBER.size)
        self.descriptor = descriptor
        self._added = 0

    def add(self, count: int) -> None:
        """Add to the bytes copied; called by the copying process. Raises ``Cancelled``."""
        self._added += count
        os.pwrite(self.descriptor, _NUMBER.pack(self._added), 0)
        if self.is_cancelled:
            raise Cancelled

    @property
    def done(self) -> int:
        """Bytes that are copied."""
        return _NUMBER.unpack(os.pread(self.descriptor, _NUMBER.size, 0))[0]

    @property
    def is_cancelled(self) -> bool:
        """Whether ``cancel`` was called, in any process that shares this progress."""
        return os.pread(self.descriptor, 1, _CANCEL_AT) != b"\0"

    def cancel(self) -> None:
        """Make the copy end soon."""
        os.pwrite(self.descriptor, b"\1", _CANCEL_AT)

    def close(self) -> None:
        """Close this end; the other process keeps its own."""
        os.close(self.descriptor)
