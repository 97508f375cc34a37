"""Writes the changed files of a sandbox as a tar stream."""

from __future__ import annotations

import contextlib
import os
import stat
import tarfile
from typing import IO, TYPE_CHECKING, Final

from sbx_jupyter.isolation.stored.merged_tree import open_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sbx_jupyter.isolation.stored.comparison import Difference
    from sbx_jupyter.isolation.stored.merged_tree import Layer

_END: Final = b"sbx-jupyter: whole"
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def write_archive(
    target: IO[bytes], layers: Sequence[Layer], changes: Iterable[Difference]
) -> None:
    """Write added and changed entries as an uncompressed tar; blocking.

    Names are relative. A file that changes while it is read is cut or padded to the size in its
    header, as ``tar`` does; one that is gone is left out. A mark follows the tar, by which
    ``ArchiveReader`` tells it from one that was cut. Raises ``OSError`` when ``target`` takes no
    more.
    """
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for change in changes:
            if change.change != "deleted":
                _add(archive, layers, change.path.removeprefix("/"))
                # It would keep one for each entry; typeshed does not know the attribute.
                archive.members = []  # pyright: ignore[reportAttributeAccessIssue]
    target.write(_END)


def _add(archive: tarfile.TarFile, layers: Sequence[Layer], path: str) -> None:
    folder, _, name = path.rpartition("/")
    for layer in layers:
        try:
            with open_directory(layer.root, folder) as parent:
                found = _find(parent, name, path)
        except OSError:
            continue
        if found is not None:
            member, file = found
            with file or contextlib.nullcontext():
                archive.addfile(member, file and _FixedSizeReader(file, member.size))
        return


def _find(parent: int, name: str, path: str) -> tuple[tarfile.TarInfo, IO[bytes] | None] | None:
    """The entry with its content; ``None`` for what has no place in a tar. Raises ``OSError``."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    member = tarfile.TarInfo(path)
    member.mode = stat.S_IMODE(status.st_mode)
    member.uid, member.gid, member.mtime = status.st_uid, status.st_gid, status.st_mtime
    if stat.S_ISDIR(status.st_mode):
        member.type = tarfile.DIRTYPE
        return member, None
    if stat.S_ISLNK(status.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=parent)
        return member, None
    if stat.S_ISREG(status.st_mode):
        member.size = status.st_size
        return member, os.fdopen(os.open(name, _FLAGS, dir_fd=parent), "rb")
    return None


class ArchiveReader:
    """Takes the mark of the end off an archive as its chunks pass."""

    def __init__(self) -> None:
        self._held = b""
        self.passed = 0
        """Bytes of the tar."""

    def pass_on(self, chunk: bytes) -> bytes:
        """Take the next chunk; return the bytes of the tar that can be passed on now."""
        known = self._held + chunk
        self._held = known[-len(_END) :]
        passed = known[: -len(_END)]
        self.passed += len(passed)
        return passed

    @property
    def is_whole(self) -> bool:
        """Whether all of it came. Content of files cannot stand for the end: it is in records."""
        return self._held == _END and self.passed % tarfile.RECORDSIZE == 0


class _FixedSizeReader:
    """Reads exactly ``size`` bytes of a file, with zeros after its end."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        chunk = self._file.read(wanted)
        self._left -= wanted
        return chunk.ljust(wanted, b"\0")
