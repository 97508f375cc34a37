"""Looks at descriptors that wait in the sockets of another process, without taking them out.

A descriptor that was sent over a socket and closed is in no table of ``/proc``. The kernel says how
many wait in each socket, and gives copies of them to a process that peeks at the messages.
"""

from __future__ import annotations

import array
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from collections.abc import Callable

_PEEK_OFFSET: Final = 42
_MOST_IN_MESSAGE: Final = 253
_MOST_MESSAGES: Final = 1000
_MOST_BYTES: Final = 1 << 16
_DEEPEST: Final = 8
"""Sockets in sockets; the kernel refuses to send deeper ones."""

_PEEK: Final = socket.MSG_PEEK | socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC


def count_waiting(fdinfo: str) -> int:
    """Count the descriptors that wait in a socket, by its file in ``fdinfo``; 0 for other kinds."""
    for line in Path(fdinfo).read_text().splitlines():
        if line.startswith("scm_fds:"):
            return int(line.split()[1])
    return 0


def look_at(pid: int, fd: int, waiting: int, note: Callable[[int], None]) -> int:
    """Call ``note`` with a copy of each descriptor that waits in a socket of a process.

    The copy is closed afterwards. Returns how many of those ``waiting`` could not be seen, such as
    those in connections that nobody has accepted.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return waiting
    try:
        copy = syscalls.call("pidfd_getfd", pidfd, fd, 0)
    except OSError:
        return waiting
    finally:
        os.close(pidfd)
    with socket.socket(fileno=copy) as sock:
        return max(waiting - _look_into(sock, note, 0), 0)


def _look_into(sock: socket.socket, note: Callable[[int], None], depth: int) -> int:
    """Note all that waits in a socket, and in sockets that wait in it; gives how many."""
    if sock.family != socket.AF_UNIX or depth > _DEEPEST:
        return 0
    seen = 0
    try:
        before = sock.getsockopt(socket.SOL_SOCKET, _PEEK_OFFSET)
        sock.setsockopt(socket.SOL_SOCKET, _PEEK_OFFSET, 0)
    except OSError:
        return 0
    try:
        for _ in range(_MOST_MESSAGES):
            found, was_last = _peek(sock)
            for fd in found:
                seen += 1
                _note(fd, note, depth)
            if was_last:
                break
    finally:
        sock.setsockopt(socket.SOL_SOCKET, _PEEK_OFFSET, before)
    return seen


def _peek(sock: socket.socket) -> tuple[list[int], bool]:
    """The descriptors of the next message, and whether there was none."""
    room = socket.CMSG_SPACE(_MOST_IN_MESSAGE * array.array("i").itemsize)
    try:
        data, extra, _, _ = sock.recvmsg(_MOST_BYTES, room, _PEEK)
    except OSError:
        return [], True
    found = array.array("i")
    for level, kind, content in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(content[: len(content) - len(content) % found.itemsize])
    return list(found), not data and not found


def _note(fd: int, note: Callable[[int], None], depth: int) -> None:
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            if count_waiting(f"/proc/self/fdinfo/{fd}"):
                with socket.socket(fileno=os.dup(fd)) as inner:
                    _look_into(inner, note, depth + 1)
        else:
            note(fd)
    except (OSError, ValueError):
        return
    finally:
        os.close(fd)
