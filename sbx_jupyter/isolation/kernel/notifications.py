"""System calls that a filter hands to a listener: receive one, look at its caller, answer it.

The caller sleeps meanwhile and may be killed, so everything read from it counts only if its call
``is_pending`` afterwards: its process id may have been given away. See seccomp_unotify(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from dataclasses import dataclass
from typing import Final

from sbx_jupyter.isolation.kernel import syscalls

_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_IS_VALID: Final = 0x40082102
_ADD_DESCRIPTOR: Final = 0x40182103
_ANSWER_WITH_IT: Final = 2
_CONTINUE: Final = 1
_SET_FLAGS: Final = 0x40082104
_SYNC_WAKE_UP: Final = 1
_LAYOUT: Final = "=QIIiIQ6Q"

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MAX_PATH: Final = 4096


@dataclass(frozen=True, slots=True)
class Notification:
    """One call that waits; ``pid`` is the calling thread."""

    listener: int
    number: int
    pid: int
    call: int
    arguments: tuple[int, ...]

    def is_pending(self) -> bool:
        """Whether the caller still waits, so that ``pid`` is still it."""
        try:
            fcntl.ioctl(self.listener, _IS_VALID, struct.pack("=Q", self.number))
        except OSError:
            return False
        return True

    def answer(self, code: int) -> bool:
        """Let the call end: with 0, or with an error number. False when the caller was killed."""
        try:
            fcntl.ioctl(self.listener, _SEND, struct.pack("=QqiI", self.number, 0, -code, 0))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            return False
        return True

    def let_through(self) -> None:
        """Have the kernel make the call; only where nothing can change what it means meanwhile."""
        with contextlib.suppress(FileNotFoundError):  # the caller was killed
            fcntl.ioctl(self.listener, _SEND, struct.pack("=QqiI", self.number, 0, 0, _CONTINUE))

    def give(self, fd: int, *, close_on_exec: bool) -> None:
        """Let the call end with a copy of a descriptor. Raises ``OSError``; it waits on then."""
        flags = os.O_CLOEXEC if close_on_exec else 0
        record = struct.pack("=QIIII", self.number, _ANSWER_WITH_IT, fd, 0, flags)
        fcntl.ioctl(self.listener, _ADD_DESCRIPTOR, record)


def prepare(listener: int) -> None:
    """Have callers and listener take turns on one processor: neither works while the other does.

    Before Linux 6.6 that cannot be chosen; a call takes longer there. Raises ``OSError``.
    """
    try:
        fcntl.ioctl(listener, _SET_FLAGS, _SYNC_WAKE_UP)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def receive(listener: int) -> Notification | None:
    """The next waiting call of a listener that polls readable; None when its caller is gone."""
    record = bytearray(struct.calcsize(_LAYOUT))
    try:
        fcntl.ioctl(listener, _RECEIVE, record, True)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    number, pid, _, call, _, _, *arguments = struct.unpack(_LAYOUT, record)
    return Notification(listener, number, pid, call, tuple(arguments))


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Read ``size`` bytes of a process's memory, fewer where it ends. Raises ``OSError``."""
    first = min(size, _PAGE - address % _PAGE)
    found = _read_piece(pid, address, first)
    for start in range(first, size, _PAGE):
        # Whole pieces are read or nothing of them, so none may cross the end of a page.
        try:
            found += _read_piece(pid, address + start, min(_PAGE, size - start))
        except OSError:
            break
    return found


def read_string(pid: int, address: int) -> bytes:
    """A path or a name at an address of a process. Raises ``OSError``."""
    text, end, _ = read_memory(pid, address, _PAGE - address % _PAGE).partition(b"\0")
    if not end:  # it goes on in the next page
        text, end, _ = read_memory(pid, address, _MAX_PATH).partition(b"\0")
    if not end or len(text) >= _MAX_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    return text


_buffer = ctypes.create_string_buffer(_PAGE)
_buffer_address: Final = ctypes.addressof(_buffer)


def _read_piece(pid: int, address: int, size: int) -> bytes:
    here = struct.pack("=QQ", _buffer_address, size)
    there = struct.pack("=QQ", address, size)
    count = syscalls.call("process_vm_readv", pid, here, 1, there, 1, 0)
    return ctypes.string_at(_buffer_address, count)
