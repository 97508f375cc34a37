"""Changes of modes, times and attributes that the keeper makes in place of a program.

Landlock lets a program change those of every file of its own id. So its filter hands the calls to
the keeper, who finds the file himself, only below the sandbox's directory, and changes that.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.confined import shared_ids
from sbx_jupyter.isolation.confined.contained_paths import refusal
from sbx_jupyter.isolation.kernel import call_numbers, syscalls
from sbx_jupyter.isolation.kernel.notifications import read_memory, read_string

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.isolation.confined.contained_paths import ContainedDirectory
    from sbx_jupyter.isolation.kernel.notifications import Notification

_NOFOLLOW: Final = 0x100
_EMPTY_PATH: Final = 0x1000
_ALL_FLAGS: Final = _NOFOLLOW | _EMPTY_PATH
_OWN_DESCRIPTOR: Final = re.compile(rb"/(?:proc/self|dev)/fd/([0-9]{1,9})")
"""The path by which the C library, and so tar, changes the mode of a file that may be a link."""

_MODE: Final = 0o7777
_MAX_VALUE: Final = 65536
_MICRO: Final = 1_000_000
_HERE: Final = struct.unpack("=I", struct.pack("=i", syscalls.AT_FDCWD))[0]


class Attributes:
    """Performs the supervised calls for one sandbox."""

    def __init__(self, tree: ContainedDirectory) -> None:
        """``tree`` holds the files that may be changed."""
        self._tree = tree
        perform: dict[str, Callable[[Notification], None]] = {
            "chmod": lambda asked: self._chmod(asked, _HERE, *asked.arguments[:2]),
            "fchmod": self._fchmod,
            "fchmodat": lambda asked: self._chmod(asked, *asked.arguments[:3]),
            "fchmodat2": lambda asked: self._chmod(asked, *asked.arguments[:4]),
            "utime": self._utime,
            "utimes": lambda asked: self._utimes(asked, _HERE, *asked.arguments[:2]),
            "futimesat": lambda asked: self._utimes(asked, *asked.arguments[:3]),
            "utimensat": self._utimensat,
            "fsetxattr": self._fsetxattr,
            "fremovexattr": self._fremovexattr,
            "truncate": self._truncate,
        }
        self._perform = {
            number: perform[name]
            for name in (*shared_ids.SUPERVISED, *shared_ids.BEFORE_TRUNCATION)
            if (number := call_numbers.NUMBERS[call_numbers.HERE].get(name)) is not None
        }

    def perform(self, asked: Notification) -> int:
        """Make the change that a call asks for, where it may; 0 or an error number."""
        try:
            self._perform[asked.call](asked)
        except OSError as error:
            return error.errno or errno.EACCES
        return 0

    def _chmod(
        self, asked: Notification, directory: int, address: int, mode: int, flags: int = 0
    ) -> None:
        fd = self._find(asked, directory, address, flags)
        try:
            _change_mode(fd, mode & _MODE)
        finally:
            os.close(fd)

    def _fchmod(self, asked: Notification) -> None:
        fd = self._take(asked, asked.arguments[0])
        try:
            _change_mode(fd, asked.arguments[1] & _MODE)
        finally:
            os.close(fd)

    def _utime(self, asked: Notification) -> None:
        path, address = asked.arguments[:2]
        times = None
        if address:
            access, change = struct.unpack("=qq", _read(asked, address, 16))
            times = struct.pack("=4q", access, 0, change, 0)
        self._set_times(asked, _HERE, path, times)

    def _utimes(self, asked: Notification, directory: int, path: int, address: int) -> None:
        times = None
        if address:
            access, access_part, change, change_part = struct.unpack(
                "=4q", _read(asked, address, 32)
            )
            if not (0 <= access_part < _MICRO and 0 <= change_part < _MICRO):
                raise refusal(errno.EINVAL)
            times = struct.pack("=4q", access, access_part * 1000, change, change_part * 1000)
        self._set_times(asked, directory, path, times)

    def _utimensat(self, asked: Notification) -> None:
        directory, path, address, flags = asked.arguments[:4]
        times = _read(asked, address, 32) if address else None
        self._set_times(asked, directory, path, times, flags)

    def _set_times(
        self,
        asked: Notification,
        directory: int,
        path: int,
        times: bytes | None,
        flags: int = 0,
    ) -> None:
        # Without a path it is the descriptor itself.
        fd = self._find(asked, directory, path, flags) if path else self._take(asked, directory)
        try:
            _call_on(fd, "utimensat", times)
        finally:
            os.close(fd)

    def _fsetxattr(self, asked: Notification) -> None:
        number, name, value, size, flags = asked.arguments[:5]
        if size > _MAX_VALUE:
            raise refusal(errno.E2BIG)
        key = read_string(asked.pid, name)
        data = _read(asked, value, size) if size else b""
        fd = self._take(asked, number)
        try:
            os.setxattr(b"/proc/self/fd/%d" % fd, key, data, flags & 0xFFFFFFFF)
        finally:
            os.close(fd)

    def _fremovexattr(self, asked: Notification) -> None:
        key = read_string(asked.pid, asked.arguments[1])
        fd = self._take(asked, asked.arguments[0])
        try:
            os.removexattr(b"/proc/self/fd/%d" % fd, key)
        finally:
            os.close(fd)

    def _truncate(self, asked: Notification) -> None:
        address, size = asked.arguments[:2]
        fd = self._find(asked, _HERE, address, 0)
        try:
            os.truncate(b"/proc/self/fd/%d" % fd, ctypes.c_long(size).value)
        finally:
            os.close(fd)

    def _find(self, asked: Notification, directory: int, address: int, flags: int) -> int:
        """The file that a path and a directory of the caller name. Raises ``OSError``."""
        flags &= 0xFFFFFFFF
        if flags & ~_ALL_FLAGS:
            raise refusal(errno.EINVAL)
        path = read_string(asked.pid, address)
        if not path:
            if not flags & _EMPTY_PATH:
                raise refusal(errno.ENOENT)
            return self._take(asked, directory)
        if (own := _OWN_DESCRIPTOR.fullmatch(path)) and not flags & _NOFOLLOW:
            return self._take(asked, int(own[1]))
        if not path.startswith(b"/"):
            base = os.readlink(_link(asked.pid, directory))
            if not self._tree.holds(base):
                raise refusal()
            path = base + b"/" + path
        fd = self._tree.open(path, follow=not flags & _NOFOLLOW)
        return _still(asked, fd)

    def _take(self, asked: Notification, number: int) -> int:
        """The file behind a descriptor of the caller. Raises ``OSError``."""
        try:
            fd = self._tree.take(_link(asked.pid, number))
        except FileNotFoundError:
            raise refusal(errno.EBADF) from None
        return _still(asked, fd)


def _link(pid: int, number: int) -> bytes:
    """The link to a directory or a descriptor of a process, as a call names it."""
    number &= 0xFFFFFFFF
    if number == _HERE:
        return b"/proc/%d/cwd" % pid
    if number > 0x7FFFFFFF:
        raise refusal(errno.EBADF)
    return b"/proc/%d/fd/%d" % (pid, number)


def _still(asked: Notification, fd: int) -> int:
    """Return the descriptor if the call is still pending, so that ``fd`` is of the caller.

    Otherwise its process id may be another process's by now. Raises ``OSError``.
    """
    if not asked.is_pending():
        os.close(fd)
        raise refusal(errno.EINTR)
    return fd


def _read(asked: Notification, address: int, size: int) -> bytes:
    data = read_memory(asked.pid, address, size)
    if len(data) < size:
        raise refusal(errno.EFAULT)
    return data


def _call_on(fd: int, name: str, value: int | bytes | None) -> None:
    """A call that takes a directory, a path, a value and flags, on the file itself."""
    syscalls.call(name, fd, b"", value, _EMPTY_PATH)


def _change_mode(fd: int, mode: int) -> None:
    try:
        _call_on(fd, "fchmodat2", mode)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        os.chmod(b"/proc/self/fd/%d" % fd, mode)  # Linux before 6.6
