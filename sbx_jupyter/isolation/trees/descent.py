"""The way down into several trees at once, with few descriptors however deep it leads.

Hostile programs wrote the trees and may move their directories meanwhile: no link is followed, and
a directory that is opened again must be the one that it was.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_MOST_OPEN: Final = 192
"""Descriptors, of all trees together, beside those of the tops."""
_LONGEST_PATH: Final = 4000
_NO_LINKS: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_SYMLINKS


class MovedError(OSError):
    """A directory is not any more where it was."""


@dataclass(slots=True)
class _Folder:
    fd: int
    identity: tuple[int, int]

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@dataclass(slots=True)
class _Level:
    name: str
    folders: dict[int, _Folder]

    def close(self) -> None:
        for folder in self.folders.values():
            folder.close()


class Descent:
    """The directories from the tops of some trees down to one place; a tree may end on the way."""

    def __init__(self, tops: Sequence[int]) -> None:
        """``tops`` are open directories, and stay the caller's."""
        self._tops = tops
        self._levels: list[_Level] = []
        self._kept = max(2, _MOST_OPEN // len(tops))
        """Number of levels that stay open."""

    def enter(self, name: str, folders: Mapping[int, int]) -> None:
        """Go down into a directory, whose descriptors, by tree, this owns from now on."""
        opened = {tree: _Folder(fd, _identity(fd)) for tree, fd in folders.items()}
        self._levels.append(_Level(name, opened))
        if len(self._levels) > self._kept:
            self._levels[-self._kept - 1].close()

    def leave(self) -> None:
        """Go up."""
        self._levels.pop().close()

    def descriptor(self, tree: int) -> int:
        """The directory of a tree at this place. Raises ``MovedError``, ``OSError``."""
        if not self._levels:
            return self._tops[tree]
        folder = self._levels[-1].folders[tree]
        if folder.fd < 0:
            self._open_again(tree)
        return folder.fd

    def path(self, name: str) -> str:
        """The path of an entry of this place, from the tops."""
        return "/".join([*(level.name for level in self._levels), name])

    def close(self) -> None:
        """Go up to the tops."""
        while self._levels:
            self.leave()

    def _open_again(self, tree: int) -> None:
        """Open the lowest levels of a tree, half as many as may be open, by names from above."""
        first = max(0, len(self._levels) - self._kept // 2)
        at = os.dup(self._tops[tree])
        try:
            if first:
                at = _replace(at, open_below(at, [level.name for level in self._levels[:first]]))
            for level in self._levels[first:]:
                folder = level.folders[tree]
                at = _replace(at, os.open(level.name, FOLDER, dir_fd=at))
                if _identity(at) != folder.identity:
                    raise MovedError(errno.ESTALE, "moved meanwhile", level.name)
                folder.close()
                folder.fd = os.dup(at)
        finally:
            os.close(at)


def open_below(directory: int, names: Sequence[str]) -> int:
    """Open a directory by its names below an open one, however long the path is.

    Raises ``OSError``.
    """
    at = os.dup(directory)
    try:
        start = 0
        while start < len(names):
            end, length = start, 0
            while end < len(names):
                length += len(os.fsencode(names[end])) + 1
                if length > _LONGEST_PATH:
                    break
                end += 1
            part = "/".join(names[start:end])
            flags = os.O_RDONLY | os.O_DIRECTORY
            at = _replace(at, syscalls.openat2(at, part, flags, _NO_LINKS))
            start = end
    except BaseException:
        os.close(at)
        raise
    return at


def _replace(old: int, new: int) -> int:
    os.close(old)
    return new


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def descent_into(folders: Sequence[str]) -> Generator[Descent]:
    """A descent into these directories, which are open meanwhile. Raises ``OSError``."""
    with contextlib.ExitStack() as opened:
        tops: list[int] = []
        for folder in folders:
            tops.append(os.open(folder, FOLDER))
            opened.callback(os.close, tops[-1])
        yield opened.enter_context(contextlib.closing(Descent(tops)))
