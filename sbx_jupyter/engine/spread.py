"""Keeps the directories of sandboxes apart on the disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_TOP_DIRECTORY: Final = 0x00020000
_FLAGS: Final = struct.Struct("I4x")


def spread(directory: Path) -> None:
    """Ask the file system to put what is made in a directory into different places.

    ext4 puts directories near the one that they are in, and does not give an inode to a new file
    for minutes after it was removed. Where many sandboxes come and go it searches past all that are
    gone for each new file: seven times as long as elsewhere. It takes a directory with this flag
    for one whose contents have nothing to do with each other. Other file systems have no such flag,
    and no such search.
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            flags = _FLAGS.unpack(fcntl.ioctl(fd, _GET_FLAGS, bytes(_FLAGS.size)))[0]
            fcntl.ioctl(fd, _SET_FLAGS, _FLAGS.pack(flags | _TOP_DIRECTORY))
    finally:
        os.close(fd)
