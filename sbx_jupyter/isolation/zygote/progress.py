"""How far a copy is, told from one process to another; the other way, that it shall end.

Two numbers in a file of memory that both have open. Standard library only, for the zygote.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import Final

_NUMBER: Final = struct.Struct("<Q")
_CANCEL_AT: Final = _NUMBER.size


class Cancelled(OSError):
    """The copy was told to end."""

    def __init__(self) -> None:
        super().__init__(errno.ECANCELED, os.strerror(errno.ECANCELED))


class Progress:
    """Bytes that are copied, and whether to go on."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Without the descriptor of another's progress, one of its own is made."""
        if descriptor is None:
            descriptor = os.memfd_create("sbx-progress")
            os.ftruncate(descriptor, 2 * _NUMBER.size)
        self.descriptor = descriptor
        self._added = 0

    def add(self, count: int) -> None:
        """Count bytes that are copied; for the one that copies. Raises ``Cancelled``."""
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
        """Let go of it; the other's end stays."""
        os.close(self.descriptor)
