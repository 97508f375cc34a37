"""Moves directory trees where the kernel alone cannot."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from sbx_jupyter.agent.workers import TimeBudget


def rename(
    source: str, destination: str, budget: TimeBudget | None = None, *, layered: bool = True
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
        (budget or TimeBudget()).demand(1, 0)
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
