"""The standard streams of a process: pipes, a terminal, or nothing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import termios
from typing import Final

_PIPE_SIZE: Final = 1 << 18
"""A user's pipe quota covers 256 pipes of this size; further pipes get 8 KiB."""
_TIOCGPTPEER: Final = 0x5441
_TIOCSPTLCK: Final = 0x40045431


def open_terminal() -> tuple[int, int]:
    """Open a pseudo-terminal: master (non-blocking) and terminal end. Raises ``OSError``."""
    flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
    master = os.open("/dev/ptmx", flags | os.O_NONBLOCK)
    try:
        # Not by the C library's openpty, which may ask its name services for the group "tty".
        fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
        terminal = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
        os.set_inheritable(terminal, False)
    except OSError:
        os.close(master)
        raise
    return master, terminal


def resize(master: int, size: list[int]) -> None:
    """Set columns and rows of a pty. Raises ``OSError``."""
    cols, rows = (min(max(int(number), 0), 0xFFFF) for number in size)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def open_pipe(opened: list[int]) -> tuple[int, int]:
    """A pipe to read from and to write to; both ends are added to ``opened``."""
    ends = os.pipe2(os.O_CLOEXEC)
    opened.extend(ends)
    # An engine with a user of its own opens its end anew, so that nobody shares its flags.
    os.fchmod(ends[0], 0o666)
    with contextlib.suppress(OSError):  # the user's share is used up: the usual 64 KiB then
        fcntl.fcntl(ends[0], fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
    return ends


def open_null(opened: list[int]) -> int:
    """``/dev/null``, or an empty pipe where hostile code put something else there."""
    try:
        fd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        fd = -1
    if fd >= 0:
        status = os.fstat(fd)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3):
            opened.append(fd)
            return fd
        os.close(fd)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.close(writer)
    opened.append(reader)
    return reader
