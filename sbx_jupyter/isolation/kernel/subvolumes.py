"""Btrfs subvolumes: directories of which a snapshot is taken at once, whatever is in them."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_CREATE: Final = 0x5000940E
_SNAPSHOT: Final = 0x50009417
_GET_FLAGS: Final = 0x80089419
_CREATE_ARGUMENTS: Final = struct.Struct("<q4088s")
_SNAPSHOT_ARGUMENTS: Final = struct.Struct("<q6Q4040s")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOT_HERE: Final = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES, errno.EINVAL)


def make_folder(path: Path) -> None:
    """Make a directory, as a subvolume where the file system has them. Raises ``OSError``."""
    parent = os.open(path.parent, _FOLDER)
    try:
        # So many bytes are only taken from what can be written to.
        arguments = bytearray(_CREATE_ARGUMENTS.pack(0, os.fsencode(path.name)))
        fcntl.ioctl(parent, _CREATE, arguments)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        path.mkdir()
    finally:
        os.close(parent)


def is_subvolume(path: Path) -> bool:
    """Whether a directory is a subvolume; false when it is not there."""
    try:
        descriptor = os.open(path, _FOLDER)
    except OSError:
        return False
    try:
        fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def take_snapshot(source: Path, target: Path) -> None:
    """Make ``target`` a copy of a subvolume as it is at one moment, on the disk. ``OSError``."""
    opened = os.open(source, _FOLDER)
    try:
        parent = os.open(target.parent, _FOLDER)
        try:
            name = os.fsencode(target.name)
            arguments = bytearray(_SNAPSHOT_ARGUMENTS.pack(opened, 0, 0, 0, 0, 0, 0, name))
            fcntl.ioctl(parent, _SNAPSHOT, arguments)
        finally:
            os.close(parent)
    finally:
        os.close(opened)
