"""The system calls that Python 3.11 does not offer, by their numbers or through the C library."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

_CLOSE_RANGE: Final = 436
_PR_SET_PDEATHSIG: Final = 1
_RT_SIGACTION: Final = 13 if platform.machine() == "x86_64" else 134
_LIBRARY_SIGNALS: Final = (32, 33)
_SECCOMP: Final = 317 if platform.machine() == "x86_64" else 277
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 8
_WAIT_KILLABLE_RECV: Final = 32
_KEEP_SIZE: Final = 1
_IN_CLOEXEC_NONBLOCK: Final = os.O_CLOEXEC | os.O_NONBLOCK

IN_MODIFY: Final = 0x2
IN_ATTRIB: Final = 0x4
IN_MOVED_FROM: Final = 0x40
IN_MOVED_TO: Final = 0x80
IN_CREATE: Final = 0x100
IN_DELETE: Final = 0x200
IN_DELETE_SELF: Final = 0x400
IN_MOVE_SELF: Final = 0x800
IN_ONLYDIR: Final = 0x1000000
IN_DONT_FOLLOW: Final = 0x2000000
IN_EXCL_UNLINK: Final = 0x4000000


def _checked(result: int, path: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def close_from(first: int) -> None:
    """Close every descriptor from ``first`` on."""
    unsigned = ctypes.c_uint
    if _libc.syscall(_CLOSE_RANGE, unsigned(first), unsigned(0xFFFFFFFF), unsigned(0)) < 0:
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))  # Linux before 5.9


def reset_library_signals() -> None:
    """Give the C library's own signals their default action, which its functions refuse to do.

    The process that started the engine may have ignored them, and programs inherit that.
    """
    action = ctypes.create_string_buffer(32)  # struct sigaction of the kernel: SIG_DFL, no flags
    for number in _LIBRARY_SIGNALS:
        _libc.syscall(_RT_SIGACTION, number, action, None, ctypes.c_size_t(8))


def install_filter(program: bytes) -> int:
    """Put a system call filter on this process; gives its listener. Needs no_new_privs.

    Raises ``OSError``.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    record = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    # A call that the listener works on ends by its answer or by a kill, not by any signal.
    flags = ctypes.c_ulong(_NEW_LISTENER | _WAIT_KILLABLE_RECV)
    mode = ctypes.c_long(_SET_MODE_FILTER)
    return _checked(_libc.syscall(ctypes.c_long(_SECCOMP), mode, flags, record))


def set_parent_death_signal(number: int) -> None:
    """Have a signal sent to this process when its parent dies, and no other. Raises ``OSError``."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number)))


def file_system_kind(path: str) -> int:
    """The magic number of the file system that holds a path. Raises ``OSError``."""
    status = (ctypes.c_long * 32)()  # struct statfs: 120 bytes, f_type first
    _checked(_libc.statfs(os.fsencode(path), status), path)
    return status[0] & 0xFFFFFFFF


def allocate(fd: int, size: int) -> None:
    """Have room for the first bytes of a file, without a change of its size. Raises ``OSError``."""
    zero = ctypes.c_longlong(0)
    _checked(_libc.fallocate(fd, _KEEP_SIZE, zero, ctypes.c_longlong(size)))


def inotify_init() -> int:
    """A new inotify descriptor, non-blocking. Raises ``OSError``."""
    return _checked(_libc.inotify_init1(_IN_CLOEXEC_NONBLOCK))


def inotify_add_watch(fd: int, path: str, mask: int) -> int:
    """Watch a path; the same one gives the same number again. Raises ``OSError``."""
    return _checked(_libc.inotify_add_watch(fd, os.fsencode(path), ctypes.c_uint32(mask)), path)


def inotify_rm_watch(fd: int, wd: int) -> None:
    """Watch a path no longer. Raises ``OSError``: EINVAL when the kernel did that by itself."""
    _checked(_libc.inotify_rm_watch(fd, wd))
