"""Mounts the file system of an image file, at first where no path leads to it.

A mount that is not attached ends with its descriptor: a process that is killed leaves none behind.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import Final

from sbx_jupyter.isolation.kernel import syscalls

MOUNT_ATTR_NOATIME: Final = 0x10
_CONTROL: Final = "/dev/loop-control"
_GET_FREE: Final = 0x4C82
_CONFIGURE: Final = 0x4C0A
_CONFIG: Final = struct.Struct("<II40x4I64s96x16x64x")
"""A descriptor, the size of blocks (0: as usual), then numbers, flags and name of the device."""
_AUTOCLEAR: Final = 4
_NAME: Final = 63
_ATTEMPTS: Final = 20
"""Attempts to take a free device, since another process may take it first."""

_FSOPEN_CLOEXEC: Final = 1
_FSMOUNT_CLOEXEC: Final = 1
_SET_FLAG: Final = 0
_SET_STRING: Final = 1
_CREATE: Final = 6


def mount_image(image: int, path: str, kind: str) -> int:
    """Mount the file system of an open file without attaching it; its top, as a descriptor.

    ``path`` is what lists of loop devices show. Access times are not kept, and what is deleted is
    freed in the file. Closing the descriptor ends the mount unless it was attached, and the last
    mount ends the loop device. Raises ``OSError``.
    """
    device, name = _attach(image, path)
    try:
        context = syscalls.call("fsopen", os.fsencode(kind), _FSOPEN_CLOEXEC)
        try:
            _configure(context, _SET_STRING, b"source", os.fsencode(name))
            _configure(context, _SET_FLAG, b"discard", None)
            _configure(context, _CREATE, None, None)
            return syscalls.call("fsmount", context, _FSMOUNT_CLOEXEC, MOUNT_ATTR_NOATIME)
        finally:
            os.close(context)
    finally:
        os.close(device)


def _configure(context: int, command: int, key: bytes | None, value: bytes | None) -> None:
    syscalls.call("fsconfig", context, command, key, value, 0)


def _attach(image: int, path: str) -> tuple[int, str]:
    """A loop device of a file, which is gone with its last user: its descriptor and path."""
    arguments = _CONFIG.pack(image, 0, 0, 0, 0, _AUTOCLEAR, os.fsencode(path)[:_NAME])
    control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        for attempt in range(_ATTEMPTS):
            name = f"/dev/loop{fcntl.ioctl(control, _GET_FREE)}"
            device = os.open(name, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _CONFIGURE, arguments)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return device, name
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, "every loop device is taken")
