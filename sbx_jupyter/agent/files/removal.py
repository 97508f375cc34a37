"""Removes directory trees of any depth with few descriptors; standard library only.

Hostile programs wrote the trees: no link is followed, and nothing is walked by long paths.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_OPEN: Final = 64
"""Levels of a tree that are open at once, one descriptor each; deeper folders are moved up."""


def go_on() -> None:
    """The step of a removal that nothing interrupts."""


def remove(
    path: str,
    step: Callable[[], None] = go_on,
    *,
    directory: int | None = None,
    opens_closed: bool = False,
) -> None:
    """Remove a file, or a directory with all below it; a missing path is fine.

    ``path`` is relative to ``directory``. ``step`` is called for each entry and may raise to stop.
    With ``opens_closed``, directories get the permissions that their removal needs. Raises
    ``OSError``.
    """
    if path == "/":
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    try:
        os.unlink(path, dir_fd=directory)
        return
    except (FileNotFoundError, NotADirectoryError):
        return
    except (IsADirectoryError, PermissionError) as error:
        try:
            fd = _open(path, directory, opens_closed=opens_closed)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise error from None  # a file that must not be removed
    try:
        _Emptying(fd, step, opens_closed=opens_closed).run()
    finally:
        os.close(fd)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path, dir_fd=directory)


@dataclass(slots=True)
class _Level:
    fd: int
    name: str
    pending: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])


class _Emptying:
    """Removes all that a directory holds, by descriptors, with at most ``_MAX_OPEN`` of them."""

    def __init__(self, top: int, step: Callable[[], None], *, opens_closed: bool) -> None:
        self._top = top
        self._step = step
        self._opens_closed = opens_closed

    def run(self) -> None:
        while self._pass_through():
            pass

    def _pass_through(self) -> bool:
        """Remove entries that are not too deep; whether any were moved up for another pass."""
        again = False
        levels = [_Level(self._top, "", self._names(self._top))]
        try:
            while levels:
                level = levels[-1]
                if not level.pending:
                    levels.pop()
                    if levels:
                        os.close(level.fd)
                        with contextlib.suppress(FileNotFoundError):
                            os.rmdir(level.name, dir_fd=levels[-1].fd)
                    continue
                self._step()
                name, is_dir = level.pending.pop()
                if not is_dir:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=level.fd)
                    continue
                try:
                    child = _open(name, level.fd, opens_closed=self._opens_closed)
                except FileNotFoundError:
                    continue
                if len(levels) < _MAX_OPEN:
                    levels.append(_Level(child, name))
                    levels[-1].pending = self._names(child)
                else:
                    os.close(child)
                    # A name of its own: what was moved up before may still be there.
                    aside = f".removing-{os.urandom(8).hex()}"
                    os.rename(name, aside, src_dir_fd=level.fd, dst_dir_fd=self._top)
                    again = True
        finally:
            for level in levels[1:]:
                os.close(level.fd)
        return again

    def _names(self, fd: int) -> list[tuple[str, bool]]:
        with os.scandir(fd) as scan:
            names: list[tuple[str, bool]] = []
            for item in scan:
                self._step()
                names.append((item.name, item.is_dir(follow_symlinks=False)))
            return names


def _open(name: str, directory: int | None, *, opens_closed: bool) -> int:
    try:
        fd = os.open(name, _OPEN, dir_fd=directory)
    except PermissionError:
        if not opens_closed:
            raise
        _open_for_owner(name, directory)
        return os.open(name, _OPEN, dir_fd=directory)
    try:
        if opens_closed and os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(fd, stat.S_IRWXU)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open_for_owner(name: str, directory: int | None) -> None:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IRWXU)
    finally:
        os.close(fd)
