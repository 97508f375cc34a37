"""Directories below another one, reached by descriptors alone and through no link.

Hostile programs write the files of templates, snapshots, volumes and writable layers, so code that
sets up a sandbox opens them by this module and never by a path string. Uses the standard library
only, for the zygote.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final

from sbx_jupyter.isolation.kernel import syscalls

FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_SYMLINKS
_HARMLESS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class LinkInTheWayError(Exception):
    """A path goes through a symbolic link, or through something else that is no directory."""

    def __init__(self, path: str, what: str, told: str = "") -> None:
        """``told`` is for the client; without it the path is one of the template."""
        self.what = what
        self.told = told or f"'{path}' of the template {what}"
        super().__init__(self.told)


def parts_of(path: str) -> list[str]:
    """The names of a path, which may be absolute. Raises ``OSError`` for one that goes up."""
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") or "\0" in part for part in parts):
        raise OSError(errno.EINVAL, "not a clean path", path)
    return parts


def open_folder(directory: int, path: str) -> int:
    """A descriptor (``O_PATH``) of a directory below ``directory``. Raises ``OSError``."""
    names = "/".join(parts_of(path)) or "."
    return syscalls.openat2(directory, names, os.O_PATH | os.O_DIRECTORY, _NO_LINKS)


def find_folder(directory: int, path: str) -> int | None:
    """Like ``open_folder``; None when it is not there, or is reached through a link."""
    try:
        return open_folder(directory, path)
    except OSError:
        return None


def make_folder(directory: int, path: str) -> int:
    """Like ``open_folder``, but make missing folders.

    Raises ``LinkInTheWayError`` for what is no directory, and ``OSError``; then it has made nothing
    past that point.
    """
    current = os.dup(directory)
    try:
        for part in parts_of(path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=current)
            deeper = _enter(current, part, path)
            os.close(current)
            current = deeper
    except BaseException:
        os.close(current)
        raise
    return current


def open_file(directory: int, path: str, flags: int, mode: int = 0) -> int:
    """A descriptor of a regular file below ``directory``. Raises ``OSError``."""
    fd = syscalls.openat2(directory, "/".join(parts_of(path)), flags | _HARMLESS, _NO_LINKS, mode)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return fd


def name_of(fd: int) -> str:
    """A path for calls that take no descriptor; it leads to what was opened and nowhere else."""
    return f"/proc/self/fd/{fd}"


def _enter(current: int, part: str, path: str) -> int:
    try:
        return os.open(part, FOLDER, dir_fd=current)
    except NotADirectoryError:
        mode = os.stat(part, dir_fd=current, follow_symlinks=False).st_mode
        what = "goes through a symbolic link" if stat.S_ISLNK(mode) else "is not a directory"
        raise LinkInTheWayError(path, what) from None
