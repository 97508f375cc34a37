"""Copies single entries of a tree with all that belongs to them; standard library only.

Everything goes through descriptors and follows no link, since the tree may change with malice.
Ids, times, holes, links, attributes and whiteouts stay as they are; blocks are shared where the
file system can.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.trees.descent import FOLDER, Descent, open_below

if TYPE_CHECKING:
    from sbx_jupyter.isolation.zygote.progress import Progress

FULL: Final = (errno.ENOSPC, errno.EDQUOT)

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FICLONE: Final = 0x40049409
_CHUNK: Final = 32 << 20
"""Bytes to copy between two checks for cancellation."""

_BLOCK: Final = 512


class Copier:
    """Copies what is not a directory into one tree; remembers which names are one file."""

    def __init__(self, target: str, progress: Progress | None = None) -> None:
        self._target = target
        self._progress = progress
        self._links: dict[tuple[int, int], str] = {}

    def copy(
        self, source: int, target: int, place: Descent, name: str, found: os.stat_result
    ) -> None:
        """Copy ``name`` from one open directory to another, which are at ``place``.

        Raises ``OSError``, ``Cancelled`` among them.
        """
        key = (found.st_dev, found.st_ino)
        if found.st_nlink > 1 and key in self._links and self._link(self._links[key], target, name):
            return
        if stat.S_ISREG(found.st_mode):
            self._copy_file(source, target, name)
        elif stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            _own(target, name, found)
        else:
            # A whiteout, a FIFO or a socket: a sandbox can make no other device.
            os.mknod(name, found.st_mode, found.st_rdev, dir_fd=target)
            _own(target, name, found)
        if found.st_nlink > 1:
            self._links[key] = place.path(name)

    def _link(self, first: str, target: int, name: str) -> bool:
        """Give a file of the copy a second name; false where it cannot have one.

        No file has names in two subvolumes.
        """
        *folders, last = first.split("/")
        top = os.open(self._target, FOLDER)
        try:
            folder = open_below(top, folders)
            try:
                # A link may have several names too; what it points to is the host's.
                os.link(last, name, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                return False
            finally:
                os.close(folder)
        finally:
            os.close(top)
        return True

    def count(self, size: int) -> None:
        """Count bytes of the disk that are dealt with; raises ``Cancelled``."""
        if self._progress is not None:
            self._progress.add(size)

    def _copy_file(self, source: int, target: int, name: str) -> None:
        reader = os.open(name, _READ, dir_fd=source)
        try:
            status = os.fstat(reader)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.ESTALE, "changed its kind meanwhile", name)
            writer = os.open(name, _WRITE, 0o600, dir_fd=target)
            try:
                self._copy_content(reader, writer, status)
                finish(reader, writer, status)
            finally:
                os.close(writer)
        finally:
            os.close(reader)

    def _copy_content(self, reader: int, writer: int, status: os.stat_result) -> None:
        if status.st_size == 0 or _share(reader, writer):
            self.count(status.st_blocks * _BLOCK)
            return
        os.ftruncate(writer, status.st_size)
        if status.st_blocks * _BLOCK >= status.st_size:
            self._copy_range(reader, writer, 0, status.st_size)
            self.count(status.st_blocks * _BLOCK - status.st_size)  # the rest of the last block
            return
        end = 0
        while end < status.st_size:  # only what is not a hole
            try:
                start = os.lseek(reader, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return
                raise
            end = os.lseek(reader, start, os.SEEK_HOLE)
            self._copy_range(reader, writer, start, min(end, status.st_size))

    def _copy_range(self, reader: int, writer: int, start: int, end: int) -> None:
        while start < end:
            copied = _copy_some(reader, writer, start, min(end - start, _CHUNK))
            if copied == 0:
                return
            start += copied
            self.count(copied)


def entries(folder: int) -> dict[str, os.stat_result]:
    """The entries of an open directory, without those that vanish meanwhile."""
    found: dict[str, os.stat_result] = {}
    with os.scandir(folder) as listing:
        for entry in listing:
            try:
                found[entry.name] = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                # The entry was removed, so the folder changed and the second pass reads it again.
                continue
    return found


def finish(source: int, target: int, status: os.stat_result) -> None:
    """Give owner, attributes, mode and times, in the order in which they last."""
    os.fchown(target, status.st_uid, status.st_gid)
    names = set(os.listxattr(source))
    for name in set(os.listxattr(target)) - names:
        os.removexattr(target, name)
    for name in names:
        os.setxattr(target, name, os.getxattr(source, name))
    os.fchmod(target, stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_some(reader: int, writer: int, at: int, count: int) -> int:
    try:
        return os.copy_file_range(reader, writer, count, at, at)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    # Between file systems of two kinds.
    os.lseek(writer, at, os.SEEK_SET)
    return os.sendfile(writer, reader, at, count)


def _share(reader: int, writer: int) -> bool:
    """Give a file the blocks of another, where the file system can."""
    try:
        fcntl.ioctl(writer, _FICLONE, reader)
    except OSError as error:
        if error.errno in FULL:
            raise
        return False
    return True


def _own(target: int, name: str, status: os.stat_result) -> None:
    os.chown(name, status.st_uid, status.st_gid, dir_fd=target, follow_symlinks=False)
    times = (status.st_atime_ns, status.st_mtime_ns)
    os.utime(name, ns=times, dir_fd=target, follow_symlinks=False)
