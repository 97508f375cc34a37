"""Copies a writable layer while its sandbox runs, and brings the copy up to date once it is frozen.

The sandbox may change the tree while it is read, with malice: every step goes through descriptors
and follows no link, so that nothing but the tree is ever read. What a first pass got wrong or
missed has a later change time, and the second pass, with everything still, copies it anew. Ids,
times, holes, links, attributes and whiteouts stay as they are; blocks are shared where the file
system can.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FICLONE: Final = 0x40049409
_CHUNK: Final = 1 << 30
_CLOCK_STEP: Final = 20_000_000
"""Change times come from a clock that ticks every few milliseconds."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Mirror:
    """One copy of one tree. ``since_ns``: only what changed from then on, in an existing copy.

    ``still`` says that nothing changes meanwhile: then every failure counts. Otherwise what
    vanishes or changes its kind is left to the second pass.
    """

    def __init__(self, source: str, target: str, *, since_ns: int = 0, still: bool) -> None:
        self._source = source
        self._target = target
        self._since = since_ns - _CLOCK_STEP
        self._still = still
        self._links: dict[tuple[int, int], str] = {}

    def run(self) -> None:
        """Make or refresh the copy. Raises ``OSError``."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._target, 0o700)
        source, target = os.open(self._source, _FOLDER), os.open(self._target, _FOLDER)
        try:
            self._folder(source, target, "")
        finally:
            os.close(source)
            os.close(target)

    def _folder(self, source: int, target: int, path: str) -> None:
        status = os.fstat(source)
        changed = status.st_ctime_ns >= self._since
        entries = _entries(source)
        there: set[str] = set()
        if self._since > 0:
            if changed:
                self._remove_gone(target, entries)
            there.update(os.listdir(target))
        for name, found in entries.items():
            is_folder = stat.S_ISDIR(found.st_mode)
            if not is_folder and found.st_ctime_ns < self._since and name in there:
                continue
            try:
                if is_folder:
                    self._enter(source, target, f"{path}/{name}", name)
                else:
                    if name in there:
                        os.unlink(name, dir_fd=target)
                    self._copy(source, target, f"{path}/{name}", name, found)
            except OSError as error:
                if self._still or error.errno in _FULL:
                    raise
        if changed:
            _finish(source, target, status)

    def _remove_gone(self, target: int, entries: dict[str, os.stat_result]) -> None:
        for name in os.listdir(target):
            kept = entries.get(name)
            mode = os.stat(name, dir_fd=target, follow_symlinks=False).st_mode
            if kept is None or stat.S_IFMT(kept.st_mode) != stat.S_IFMT(mode):
                _remove(target, name, mode)

    def _enter(self, source: int, target: int, path: str, name: str) -> None:
        inner = os.open(name, _FOLDER, dir_fd=source)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=target)
            made = os.open(name, _FOLDER, dir_fd=target)
            try:
                self._folder(inner, made, path)
            finally:
                os.close(made)
        finally:
            os.close(inner)

    def _copy(self, source: int, target: int, path: str, name: str, found: os.stat_result) -> None:
        key = (found.st_dev, found.st_ino)
        if found.st_nlink > 1 and key in self._links:
            os.link(f"{self._target}{self._links[key]}", name, dst_dir_fd=target)
            return
        if stat.S_ISREG(found.st_mode):
            _copy_file(source, target, name)
        elif stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            _own(target, name, found)
        else:
            # A whiteout, a FIFO or a socket: a sandbox can make no other device.
            os.mknod(name, found.st_mode, found.st_rdev, dir_fd=target)
            _own(target, name, found)
        if found.st_nlink > 1:
            self._links[key] = path


def _entries(folder: int) -> dict[str, os.stat_result]:
    found: dict[str, os.stat_result] = {}
    with os.scandir(folder) as listing:
        for entry in listing:
            try:
                found[entry.name] = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                # Gone: the folder's own change brings the second pass back to it.
                continue
    return found


def _copy_file(source: int, target: int, name: str) -> None:
    reader = os.open(name, _READ, dir_fd=source)
    try:
        status = os.fstat(reader)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ESTALE, "changed its kind meanwhile", name)
        writer = os.open(name, _WRITE, 0o600, dir_fd=target)
        try:
            _copy_content(reader, writer, status)
            _finish(reader, writer, status)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _copy_content(reader: int, writer: int, status: os.stat_result) -> None:
    if status.st_size == 0:
        return
    try:
        fcntl.ioctl(writer, _FICLONE, reader)
    except OSError as error:
        if error.errno in _FULL:
            raise
    else:
        return
    os.ftruncate(writer, status.st_size)
    if status.st_blocks * 512 >= status.st_size:
        _copy_range(reader, writer, 0, status.st_size)
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
        _copy_range(reader, writer, start, min(end, status.st_size))


def _copy_range(reader: int, writer: int, start: int, end: int) -> None:
    while start < end:
        copied = os.copy_file_range(reader, writer, min(end - start, _CHUNK), start, start)
        if copied == 0:
            return
        start += copied


def _finish(source: int, target: int, status: os.stat_result) -> None:
    """Owner, attributes, mode and times, in the order in which they last."""
    os.fchown(target, status.st_uid, status.st_gid)
    names = set(os.listxattr(source))
    for name in set(os.listxattr(target)) - names:
        os.removexattr(target, name)
    for name in names:
        os.setxattr(target, name, os.getxattr(source, name))
    os.fchmod(target, stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _own(target: int, name: str, status: os.stat_result) -> None:
    os.chown(name, status.st_uid, status.st_gid, dir_fd=target, follow_symlinks=False)
    times = (status.st_atime_ns, status.st_mtime_ns)
    os.utime(name, ns=times, dir_fd=target, follow_symlinks=False)


def _remove(target: int, name: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=target)
    else:
        os.unlink(name, dir_fd=target)
