"""Reads and parses the events of an inotify descriptor, without blocking."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from dataclasses import dataclass
from typing import Final

from sbx_jupyter.agent import system
from sbx_jupyter.errors import InternalError
from sbx_jupyter.protocol import runtime

IN_Q_OVERFLOW: Final = 0x4000
IN_IGNORED: Final = 0x8000
IN_ISDIR: Final = 0x40000000

_HEADER: Final = struct.Struct("iIII")
_READ_SIZE: Final = 256 * 1024

_TYPES: Final = (
    (runtime.EVENT_CREATE, system.IN_CREATE | system.IN_MOVED_TO),
    (runtime.EVENT_RENAME, system.IN_MOVED_FROM | system.IN_MOVE_SELF),
    (runtime.EVENT_CHMOD, system.IN_ATTRIB),
    (runtime.EVENT_WRITE, system.IN_MODIFY),
    (runtime.EVENT_REMOVE, system.IN_DELETE | system.IN_DELETE_SELF),
)
"""The order in which one event of the kernel is split into several (interface 3.4)."""


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """One inotify event; the name is empty for the watched directory itself."""

    wd: int
    mask: int
    name: str

    @property
    def types(self) -> list[str]:
        """The event types for clients, in order."""
        return [name for name, bits in _TYPES if self.mask & bits]


def is_inotify(fd: int) -> bool:
    """Whether a descriptor from a sandbox is of inotify."""
    return os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:inotify"


def read(fd: int) -> list[KernelEvent]:
    """The events that are queued now, at most 256 KiB of them."""
    waiting = bytearray(4)
    fcntl.ioctl(fd, termios.FIONREAD, waiting)
    if not any(waiting):
        return []
    try:
        return parse(os.read(fd, _READ_SIZE))
    except BlockingIOError:
        return []


def parse(raw: bytes) -> list[KernelEvent]:
    """Parse events; raises ``InternalError`` for bytes that the kernel would not write."""
    events: list[KernelEvent] = []
    offset = 0
    while offset < len(raw):
        start = offset + _HEADER.size
        if start > len(raw):
            raise InternalError("an inotify event was cut off")
        wd, mask, _, length = _HEADER.unpack_from(raw, offset)
        offset = start + length
        if offset > len(raw):
            raise InternalError("an inotify event was cut off")
        name = raw[start:offset].split(b"\0", 1)[0]
        events.append(KernelEvent(wd, mask, os.fsdecode(name)))
    return events
