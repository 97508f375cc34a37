"""Takes, checks, writes and closes descriptors; those of a sandbox are checked before their use."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Check = Callable[[int], bool]

_PTY_MASTER: Final = os.makedev(5, 2)
_COPY_CHUNK: Final = 64 << 20
_NOT_COPYABLE: Final = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def is_regular_file(fd: int) -> bool:
    """Whether it is a regular file, which can be read without waiting for another process."""
    return stat.S_ISREG(os.fstat(fd).st_mode)


def is_pipe(fd: int) -> bool:
    """Whether it is one end of a pipe."""
    return stat.S_ISFIFO(os.fstat(fd).st_mode)


def is_pty_master(fd: int) -> bool:
    """Whether it is the master side of a pseudo-terminal and no other device."""
    status = os.fstat(fd)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == _PTY_MASTER


def is_tcp_socket(fd: int) -> bool:
    """Whether it is a TCP socket, IPv4 or IPv6."""
    return _is_socket(fd, (socket.AF_INET, socket.AF_INET6), socket.SOCK_STREAM)


def is_unix_stream(fd: int) -> bool:
    """Whether it is a Unix socket of a stream."""
    return _is_socket(fd, (socket.AF_UNIX,), socket.SOCK_STREAM)


def is_unix_packets(fd: int) -> bool:
    """Whether it is a Unix socket of a stream of packets."""
    return _is_socket(fd, (socket.AF_UNIX,), socket.SOCK_SEQPACKET)


def _is_socket(fd: int, families: tuple[int, ...], kind: int) -> bool:
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return False
    with socket.socket(fileno=os.dup(fd)) as sock:
        return sock.family in families and sock.type == kind


def take(fds: list[int], *checks: Check) -> list[int]:
    """Take one descriptor per check, set to non-blocking; the caller owns them.

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
    """Close every descriptor, ignoring errors."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def write_all(fd: int, chunks: Iterable[bytes | memoryview]) -> None:
    """Write every chunk in full; blocking. Raises ``OSError``."""
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            view = view[os.write(fd, view) :]


def replace_content(draft: int, target: int, size: int) -> None:
    """Make the first ``size`` bytes of one file all that is in another, which is closed; blocking.

    Raises ``OSError``.
    """
    try:
        _copy(draft, target, size)
        os.ftruncate(target, size)
    finally:
        os.close(target)


def _copy(source: int, target: int, size: int) -> None:
    copied, copy = 0, os.copy_file_range
    os.lseek(source, 0, os.SEEK_SET)
    while copied < size:
        try:
            count = copy(source, target, min(size - copied, _COPY_CHUNK))
        except OSError as error:
            if copy is not os.copy_file_range or error.errno not in _NOT_COPYABLE:
                raise
            copy = _send
            continue
        if not count:
            break  # whoever made it has cut it off
        copied += count


def _send(source: int, target: int, count: int) -> int:
    return os.sendfile(target, source, None, count)


def own_description(fd: int, flags: int) -> int:
    """Open the same pipe anew, with an open file description of our own; ``fd`` is closed.

    The agent shares the description that came over the channel, and could make it blocking while
    the event loop relies on it. ``fd`` itself is returned where the pipe cannot be opened again,
    because another id owns it or its other end is gone.
    """
    try:
        own = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return fd
    os.close(fd)
    return own
