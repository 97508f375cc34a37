"""What the engine checks before it trusts a descriptor that came out of a sandbox."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Check = Callable[[int], bool]

_PTY_MASTER: Final = os.makedev(5, 2)


def is_regular_file(fd: int) -> bool:
    """A file on a disk: reading it never waits for another process."""
    return stat.S_ISREG(os.fstat(fd).st_mode)


def is_pipe(fd: int) -> bool:
    """One end of a pipe."""
    return stat.S_ISFIFO(os.fstat(fd).st_mode)


def is_pty_master(fd: int) -> bool:
    """The master side of a pseudo-terminal, not any other device."""
    status = os.fstat(fd)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == _PTY_MASTER


def is_tcp_socket(fd: int) -> bool:
    """A TCP socket of whatever address family."""
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    with socket.socket(fileno=os.dup(fd)) as sock:
        return sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM


def take(fds: list[int], *checks: Check) -> list[int]:
    """One descriptor per check, set non-blocking and owned by the caller from now on.

    ``fds`` is emptied: surplus descriptors are closed. Raises ``InternalError``, with everything
    closed, when there are too few or one is of another kind.
    """
    taken = fds[: len(checks)]
    surplus = fds[len(checks) :]
    fds.clear()
    close_all(surplus)
    try:
        is_right = len(taken) == len(checks) and all(
            check(fd) for check, fd in zip(checks, taken, strict=True)
        )
        for fd in taken:
            os.set_blocking(fd, False)
    except OSError:
        is_right = False
    if not is_right:
        close_all(taken)
        raise InternalError("the sandbox answered with a wrong descriptor")
    return taken


def close_all(fds: Sequence[int]) -> None:
    """Close every descriptor, whatever their state."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def own_description(fd: int, flags: int) -> int:
    """The same pipe through an open file description of our own; ``fd`` is closed.

    The description that came over the channel is shared with the agent, which could make it
    blocking again while the event loop relies on it. Where the pipe cannot be opened anew, because
    another id owns it or its other end is gone, ``fd`` itself is returned.
    """
    try:
        own = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return fd
    os.close(fd)
    return own
