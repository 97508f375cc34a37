"""Btrfs subvolumes: directories with instant snapshots and, where quotas are on, a size limit.

The limit is set by the call that makes the subvolume, which an ordinary user may make as well. It
counts what the subvolume refers to, also files without a name, and the file system's own records.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CREATE: Final = 0x5000940E
_CREATE_LIMITED: Final = 0x50009418
_SNAPSHOT: Final = 0x50009417
_GET_FLAGS: Final = 0x80089419
_FILE_SYSTEM: Final = 0x8400941F
_LOOK_UP: Final = 0xD0009412
_CREATE_ARGUMENTS: Final = struct.Struct("<q4088s")
_SNAPSHOT_ARGUMENTS: Final = struct.Struct("<q6Q4040s")
_LIMITED_ARGUMENTS: Final = struct.Struct("<q4Q16x4040s")
_LIMIT: Final = struct.Struct("<9Q")
_INHERIT: Final = 1 << 2
"""Flag of the call: a record for the quota group follows."""

_SET_LIMITS: Final = 1
_OF_REFERENCED: Final = 1
_FIRST_INODE: Final = 256
_RECORD: Final = 4096
_SYSFS: Final = Path("/sys/fs/btrfs")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOT_HERE: Final = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES, errno.EINVAL)


@dataclass(frozen=True, slots=True)
class Quota:
    """The use of a subvolume as the kernel counts it, and its limit, in bytes."""

    used: int
    limit: int


def make_folder(path: Path, limit: int = 0) -> None:
    """Make a directory, as a subvolume where the file system has them. Raises ``OSError``.

    ``limit`` is in bytes, 0 for none; it has no effect where the quotas of btrfs are off.
    """
    parent = os.open(path.parent, _FOLDER)
    try:
        _create(parent, os.fsencode(path.name), limit)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        path.mkdir()
    finally:
        os.close(parent)


def _create(parent: int, name: bytes, limit: int) -> None:
    if limit:
        record = _LIMIT.pack(_SET_LIMITS, 0, 0, 0, _OF_REFERENCED, limit, 0, 0, 0)
        buffer = ctypes.create_string_buffer(record, len(record))
        address = ctypes.addressof(buffer)
        arguments = _LIMITED_ARGUMENTS.pack(0, 0, _INHERIT, len(record), address, name)
        try:
            fcntl.ioctl(parent, _CREATE_LIMITED, bytearray(arguments))
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
        else:
            return
    # So many bytes are only taken from what can be written to.
    fcntl.ioctl(parent, _CREATE, bytearray(_CREATE_ARGUMENTS.pack(0, name)))


def read_quota(path: Path) -> Quota | None:
    """Use and limit of a subvolume; ``None`` where the kernel does not hold it to a limit."""
    try:
        counts = _counts_of(path)
    except (OSError, ValueError):
        return None
    if not counts["limit_flags"] & _OF_REFERENCED:
        return None
    # Data that is written but not yet on the disk counts as reserved.
    reserved = sum(value for name, value in counts.items() if name.startswith("rsv_"))
    return Quota(counts["referenced"] + reserved, counts["max_referenced"])


def _counts_of(path: Path) -> dict[str, int]:
    folder = os.open(path, _FOLDER)
    try:
        status = os.fstat(folder)
        if status.st_ino != _FIRST_INODE:
            raise ValueError("not a subvolume")
        record = bytearray(struct.pack("<QQ", 0, _FIRST_INODE).ljust(_RECORD, b"\0"))
        fcntl.ioctl(folder, _LOOK_UP, record)
        (number,) = struct.unpack_from("<Q", record)
        described = bytearray(1024)
        fcntl.ioctl(folder, _FILE_SYSTEM, described)
    finally:
        os.close(folder)
    groups = _SYSFS / str(uuid.UUID(bytes=bytes(described[16:32]))) / "qgroups"
    if _number(groups / "inconsistent"):
        raise ValueError("the counts are not right until a rescan is done")
    return {file.name: _number(file) for file in (groups / f"0_{number}").iterdir()}


def _number(path: Path) -> int:
    """The number in a file; 0 when this kernel does not have it."""
    try:
        return int(path.read_text())
    except FileNotFoundError:
        return 0


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
