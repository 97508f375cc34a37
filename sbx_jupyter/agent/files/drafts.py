"""Nameless files that hold new content until all of it has arrived.

The content then goes into the target, which stays the same file: it keeps its links and its mode,
and programs that have it open or watch it see no other file in its place.
"""

from __future__ import annotations

import errno
import os

from sbx_jupyter.agent import system

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NOT_KEPT_FREE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV)


def open_draft(path: str, root: str) -> int | None:
    """A nameless file on the file system of ``path``; None where that has none.

    ``root`` is the directory that stands for ``/``. Raises ``OSError`` where there is no room.
    """
    try:
        folder = _top(os.path.dirname(path), root or "/")
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
        return None


def keep_room(fd: int, size: int) -> None:
    """Have room for ``size`` bytes in a file, whose content stays. Raises ``OSError``."""
    if not size:
        return
    try:
        system.allocate(fd, size)
    except OSError as error:
        if error.errno not in _NOT_KEPT_FREE:
            raise


def _top(folder: str, root: str) -> str:
    """The uppermost directory of a file system, where fewest watch for changes."""
    device = os.stat(folder).st_dev
    while folder not in (root, "/"):
        parent: str = os.path.dirname(folder)
        if os.stat(parent).st_dev != device:
            break
        folder = parent
    return folder
