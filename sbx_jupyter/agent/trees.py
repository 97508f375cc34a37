"""Whole directory trees: removing them, and moving them where the kernel alone cannot."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final

from .workers import Patience

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_OPEN: Final = 64
"""How deep a tree is walked with one descriptor per level; what is deeper is moved up first."""


def remove(path: str, patience: Patience | None = None) -> None:
    """Remove a file, or a directory with all below it; a missing path is fine.

    Works on trees of any depth, however long the paths in them are. Raises ``OSError``.
    """
    if path == "/":
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    try:
        os.unlink(path)
        return
    except (FileNotFoundError, NotADirectoryError):
        return
    except (IsADirectoryError, PermissionError) as error:
        try:
            fd = os.open(path, _OPEN)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise error from None  # a file that must not be removed
    try:
        _empty(fd, patience or Patience())
    finally:
        os.close(fd)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path)


def rename(
    source: str, destination: str, patience: Patience | None = None, *, layered: bool = True
) -> None:
    """``rename(2)``, if ``layered`` also for a directory that a lower layer of the overlay holds.

    The kernel refuses those with EXDEV, as ``mv`` between file systems would be; within one
    mounted file system clients may expect a rename to work. Raises ``OSError``.
    """
    try:
        os.rename(source, destination)
    except OSError as error:
        # Landlock says the same of what may not be moved; copies would take modes and times by
        # paths that programs can change meanwhile, which it does not hold.
        if error.errno != errno.EXDEV or not layered:
            raise
        if not _is_layered_directory(source, destination):
            raise
        # It cannot be begun here and ended there.
        (patience or Patience()).demand(1, 0)
        _move_contents(source, destination)


def _is_layered_directory(source: str, destination: str) -> bool:
    status = os.lstat(source)
    parent = os.stat(os.path.dirname(destination))
    inside = (destination + "/").startswith(source + "/")
    return stat.S_ISDIR(status.st_mode) and status.st_dev == parent.st_dev and not inside


def _move_contents(source: str, destination: str) -> None:
    """Make the directory anew and move what is in it, directory by directory."""
    pairs = [(source, destination)]
    made: list[tuple[str, str, os.stat_result]] = []
    while pairs:
        old, new = pairs.pop()
        status = os.lstat(old)
        if old == source:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(new)  # rename(2) replaces an empty directory, and only that
        os.mkdir(new, 0o700)
        made.append((old, new, status))
        with os.scandir(old) as scan:
            children = [(item.path, os.path.join(new, item.name)) for item in scan]
        for child, target in children:
            try:
                os.rename(child, target)
            except OSError as error:
                if error.errno != errno.EXDEV or not stat.S_ISDIR(os.lstat(child).st_mode):
                    raise
                pairs.append((child, target))
    for old, new, status in reversed(made):
        for name in os.listxattr(old):
            with contextlib.suppress(OSError):  # not every attribute can be carried over
                os.setxattr(new, name, os.getxattr(old, name))
        os.chown(new, status.st_uid, status.st_gid)
        os.chmod(new, stat.S_IMODE(status.st_mode))
        os.rmdir(old)
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


def _empty(top: int, patience: Patience) -> None:
    """Remove all that a directory holds, by descriptors, with at most ``_MAX_OPEN`` of them."""
    again = True
    while again:
        again = False
        opened: list[tuple[int, str]] = [(top, "")]
        pending = [_names(top, patience)]
        try:
            while pending:
                fd, own_name = opened[-1]
                if not pending[-1]:
                    pending.pop()
                    opened.pop()
                    if opened:
                        os.close(fd)
                        with contextlib.suppress(FileNotFoundError):
                            os.rmdir(own_name, dir_fd=opened[-1][0])
                    continue
                patience.step()
                name, is_dir = pending[-1].pop()
                if not is_dir:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=fd)
                elif len(opened) < _MAX_OPEN:
                    try:
                        child = os.open(name, _OPEN, dir_fd=fd)
                    except FileNotFoundError:
                        continue
                    opened.append((child, name))
                    pending.append(_names(child, patience))
                else:
                    # Use a new name, since entries that were moved up before may still exist.
                    aside = f".removing-{os.urandom(8).hex()}"
                    os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=top)
                    again = True
        finally:
            for fd, _ in opened[1:]:
                os.close(fd)


def _names(fd: int, patience: Patience) -> list[tuple[str, bool]]:
    with os.scandir(fd) as scan:
        names: list[tuple[str, bool]] = []
        for item in scan:
            patience.step()
            names.append((item.name, item.is_dir(follow_symlinks=False)))
        return names
