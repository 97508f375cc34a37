"""One call about a socket: its arguments, the memory of its caller, and its answer.

Each argument is read once. What is opened by the number of the caller counts only if the call still
waits afterwards, since the number may be another program's by then.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from typing import TYPE_CHECKING, Final, TypeVar

from sbx_jupyter.agent import procfs
from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.isolation.kernel.notifications import Notification

T = TypeVar("T")

PIDFD_THREAD: Final = os.O_EXCL
_SO_COOKIE: Final = 57
_SHORTEST_ADDRESS: Final = 2
_LONGEST_ADDRESS: Final = 128


def failure(code: int) -> OSError:
    """The error that a program sees."""
    return OSError(code, os.strerror(code))


def cookie_of(sock: socket.socket) -> bytes:
    """The kernel's unique number of a socket; the same for all copies of it."""
    return sock.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8)


def open_thread(thread: int) -> int:
    """A descriptor of a thread, or of its process where Linux has none of threads (before 6.9).

    Both have the same open files, unless a program separates them, which harms nobody else. Raises
    ``OSError``.
    """
    try:
        return syscalls.call("pidfd_open", thread, PIDFD_THREAD)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    leader = procfs.leader_of(thread)
    if leader is None:
        raise failure(errno.ESRCH)
    return os.pidfd_open(leader)


class SocketCall:
    """A call that waits for the broker."""

    def __init__(self, asked: Notification) -> None:
        self.asked = asked
        self.arguments = asked.arguments
        self.flags = 0
        """Flags of the descriptor that an accept returns."""
        self.deadline: float | None = None
        """Time at which an accept gives up, by the clock of ``time.monotonic``."""

    def number(self, index: int) -> int:
        """An argument as a C int."""
        return ctypes.c_int(self.arguments[index]).value

    def check(self) -> None:
        """Raise ``OSError`` when the caller waits no more."""
        if not self.asked.is_pending():
            raise failure(errno.EINTR)

    def socket(self) -> socket.socket:
        """A copy of the socket that the first argument names. Raises ``OSError``."""
        number = self.number(0)
        if number < 0:
            raise failure(errno.EBADF)
        try:
            link = os.readlink(b"/proc/%d/fd/%d" % (self.asked.pid, number))
        except FileNotFoundError:
            raise failure(errno.EBADF) from None
        if not link.startswith(b"socket:"):  # closing a copy of another file could take long
            raise failure(errno.ENOTSOCK)
        pidfd = open_thread(self.asked.pid)
        try:
            fd = syscalls.call("pidfd_getfd", pidfd, number, 0)
        finally:
            os.close(pidfd)
        try:
            self.check()
            return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
        except OSError:
            os.close(fd)
            raise

    def memory(self, work: Callable[[int], T]) -> T:
        """``work`` with a descriptor of the memory of the caller, and of nobody else.

        The descriptor stays with this memory when the caller ends. Raises ``OSError``.
        """
        fd = os.open(f"/proc/{self.asked.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            self.check()
            return work(fd)
        except OverflowError:  # an address above all that there can be
            raise failure(errno.EFAULT) from None
        except OSError as error:
            raise failure(errno.EFAULT if error.errno == errno.EIO else error.errno or 0) from error
        finally:
            os.close(fd)

    def read(self, index: int, size: int) -> bytes:
        """Read the memory that an argument points to. Raises ``OSError``."""
        raw = self.memory(lambda fd: os.pread(fd, size, self.arguments[index]))
        if len(raw) < size:
            raise failure(errno.EFAULT)
        return raw

    def address(self) -> bytes:
        """The address that the second argument points to. Raises ``OSError``."""
        size = self.number(2)
        if not _SHORTEST_ADDRESS <= size <= _LONGEST_ADDRESS:
            raise failure(errno.EINVAL)
        return self.read(1, size)

    def write(self, raw: bytes, at: int, size_at: int) -> None:
        """Fill the buffer of one argument, whose size another one points to. Raises ``OSError``."""
        buffer, size_address = self.arguments[at], self.arguments[size_at]

        def fill(fd: int) -> None:
            known = os.pread(fd, 4, size_address)
            if len(known) < 4:
                raise failure(errno.EFAULT)
            (size,) = struct.unpack("i", known)
            if size < 0:
                raise failure(errno.EINVAL)
            if os.pwrite(fd, raw[:size], buffer) < min(size, len(raw)):
                raise failure(errno.EFAULT)
            os.pwrite(fd, struct.pack("I", len(raw)), size_address)

        self.memory(fill)
