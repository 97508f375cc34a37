"""Writes a sandbox's name into ``/etc/hostname`` and ``/etc/hosts`` at each of its starts.

Programs of the sandbox wrote the files that are there: they lose nothing but an older name, also
when the disk is full or the start is cut short. Standard library only, for the zygote.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import contained

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES: Final = 65_536
"""A longer file is left as it is."""

_HOSTS: Final = b"127.0.0.1 localhost\n"
_NEW: Final = ".sbx-new-name"
_MODE: Final = 0o644


def with_name(hosts: bytes | None, name: bytes) -> bytes:
    """The content of ``/etc/hosts`` with a sandbox's name; ``None`` where there is no file."""
    lines = (_HOSTS if hosts is None else hosts).splitlines(keepends=True)
    kept = b"".join(line for line in lines if not line.startswith(b"127.0.1.1"))
    if kept and not kept.endswith(b"\n"):
        kept += b"\n"
    return kept + b"127.0.1.1 " + name + b"\n"


def write_names(etc: int, name: str) -> None:
    """Write both files into a directory; what is no file, or cannot be written, stays as it is."""
    raw = name.encode()
    _renew(etc, "hostname", lambda _: raw + b"\n")
    _renew(etc, "hosts", lambda hosts: with_name(hosts, raw))


def _renew(folder: int, name: str, renew: Callable[[bytes | None], bytes]) -> None:
    with contextlib.suppress(OSError):
        try:
            old = contained.open_file(folder, name, os.O_RDONLY)
        except FileNotFoundError:
            _put(folder, name, renew(None), None)
            return
        try:
            content = os.read(old, MOST_BYTES)
            # Where there is more of it, that would be lost.
            if len(content) == os.fstat(old).st_size and (renewed := renew(content)) != content:
                _put(folder, name, renewed, old)
        finally:
            os.close(old)


def _put(folder: int, name: str, content: bytes, old: int | None) -> None:
    """Replace a file in one step, so that there is never half of it. Raises ``OSError``."""
    new = _create(folder)
    try:
        try:
            if old is not None:
                _copy_status(old, new)
            if os.write(new, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        finally:
            os.close(new)
        os.rename(_NEW, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(_NEW, dir_fd=folder)
        raise


def _create(folder: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(_NEW, flags, _MODE, dir_fd=folder)
    except FileExistsError:  # of a start that was cut short
        os.unlink(_NEW, dir_fd=folder)
        return os.open(_NEW, flags, _MODE, dir_fd=folder)


def _copy_status(old: int, new: int) -> None:
    """Give a new file of id 0 the owner, mode and attributes of the one that it replaces."""
    status = os.fstat(old)
    with contextlib.suppress(OSError):  # an owner that the sandbox does not know
        if status.st_uid or status.st_gid:
            os.fchown(new, status.st_uid, status.st_gid)
    if stat.S_IMODE(status.st_mode) != _MODE:
        os.fchmod(new, stat.S_IMODE(status.st_mode))
    with contextlib.suppress(OSError):
        for attribute in os.listxattr(old):
            os.setxattr(new, attribute, os.getxattr(old, attribute))
