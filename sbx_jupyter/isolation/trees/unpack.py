"""Unpacks the layers of a container image into one directory, in a separate process.

The process makes the directory its root first, so no name or link in an archive can point outside
of it. All layers are unpacked into one tree: entries that a layer removes are deleted, links to
directories are followed as in the image, and a sandbox looks names up in one directory.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import posixpath
import shutil
import stat
import tarfile
from typing import IO, TYPE_CHECKING, Final, cast

from sbx_jupyter.agent.files.removal import remove
from sbx_jupyter.isolation.kernel import users as kinds
from sbx_jupyter.isolation.trees.tar_headers import LimitedTarFile

if TYPE_CHECKING:
    from collections.abc import Sequence

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_CHUNK: Final = 1024 * 1024
_MAX_ID: Final = kinds.RANGE - 1
_ATTRIBUTE: Final = "SCHILY.xattr.user."

_DIRECTORIES: Final = {
    "etc": 0o755, "home": 0o755, "root": 0o700, "run": 0o755, "tmp": 0o1777, "usr": 0o755,
    "usr/local": 0o755, "var": 0o755, "var/tmp": 0o1777,
}  # fmt: skip
_FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
}


def unpack(
    target: str, folder: int, names: Sequence[str], *, users: str, owner: int | None
) -> None:
    """Make ``target`` of archives in a folder, the lowest layer first; the caller's root changes.

    Where there is an ``owner``, only its archives are taken. Raises ``OSError``, and ``ValueError``
    with the entry's name for what cannot be unpacked.
    """
    if users == kinds.HOST:
        raise ValueError("container images need namespaces, which this machine does not give")
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(_open_archive(folder, name, owner)) for name in names]
        os.mkdir(target, 0o755)
        os.chmod(target, 0o755)
        os.chroot(target)
        os.chdir("/")
        os.umask(0)
        for file in files:
            _Layer(owners=users != kinds.VIRTUAL).apply(file)
    _complete()


def _open_archive(folder: int, name: str, owner: int | None) -> IO[bytes]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.fdopen(os.open(name, flags, dir_fd=folder), "rb")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or owner not in (None, status.st_uid):
        file.close()
        raise ValueError(f"{name} is no archive of the engine")
    return file


class _Layer:
    """One archive, applied over what there is."""

    def __init__(self, *, owners: bool) -> None:
        self._owners = owners
        self._made: set[str] = set()
        self._times: list[tuple[str, float]] = []

    def apply(self, file: IO[bytes]) -> None:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if compressed else file
        try:
            with LimitedTarFile.open(fileobj=stream, mode="r|") as tar:
                for member in tar:
                    self._take(tar, member)
                    # It would keep one for each entry; typeshed does not know the attribute.
                    tar.members = []  # pyright: ignore[reportAttributeAccessIssue]
        except (tarfile.TarError, EOFError) as error:
            raise ValueError(f"the layer is not a complete tar: {error}") from error
        for path, at in reversed(self._times):
            with contextlib.suppress(OSError):
                os.utime(path, (at, at), follow_symlinks=False)

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = posixpath.normpath(posixpath.join("/", member.name))
        path = "/" + path.lstrip("/")
        name = posixpath.basename(path)
        try:
            if name == _OPAQUE:
                self._clear(posixpath.dirname(path))
            elif name.startswith(_WHITEOUT):
                remove(posixpath.join(posixpath.dirname(path), name[len(_WHITEOUT) :]))
            else:
                self._make(tar, member, path)
        except OSError as error:
            raise OSError(error.errno, f"{member.name[:200]}: {error.strerror}") from error

    def _clear(self, directory: str) -> None:
        """Remove what lower layers put into a directory."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(directory):
                path = posixpath.join(directory, name)
                if path in self._made and os.path.isdir(path) and not os.path.islink(path):
                    self._clear(path)
                elif path not in self._made:
                    remove(path)

    def _make(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        os.makedirs(posixpath.dirname(path), 0o755, exist_ok=True)
        is_there = _is_directory(path)
        if path != "/" and not (member.isdir() and is_there):
            remove(path)
        if member.isdir():
            if not is_there:
                os.mkdir(path)
        elif member.isreg():
            self._write(tar, member, path)
        elif member.issym():
            os.symlink(member.linkname, path)
        elif member.islnk():
            source = posixpath.normpath(posixpath.join("/", member.linkname))
            os.link(source, path, follow_symlinks=False)
        elif member.isfifo():
            os.mkfifo(path)
        else:
            return  # a device: sandboxes have their own, and no others
        self._made.add(path)
        self._describe(member, path)

    @staticmethod
    def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        source = tar.extractfile(member)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "wb") as target:
            if source is not None:
                shutil.copyfileobj(source, target, _CHUNK)

    def _describe(self, member: tarfile.TarInfo, path: str) -> None:
        """Owner, mode, attributes and time, as the archive has them."""
        if member.islnk():
            return
        if self._owners:
            uid, gid = min(member.uid, _MAX_ID), min(member.gid, _MAX_ID)
            os.chown(path, max(uid, 0), max(gid, 0), follow_symlinks=False)
        if not member.issym():
            os.chmod(path, stat.S_IMODE(member.mode))
        for key, value in member.pax_headers.items():
            # Attributes of the overlay itself would change what lies below.
            if key.startswith(_ATTRIBUTE) and not key.startswith(f"{_ATTRIBUTE}overlay."):
                with contextlib.suppress(OSError):
                    name = key[len("SCHILY.xattr.") :]
                    raw = value.encode("utf-8", "surrogateescape")
                    os.setxattr(path, name, raw, follow_symlinks=False)
        if member.isdir():
            self._times.append((path, member.mtime))
        else:
            with contextlib.suppress(OSError, OverflowError):
                os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _complete() -> None:
    """Add what every sandbox rests on and a small image may lack."""
    for name, mode in _DIRECTORIES.items():
        if not os.path.lexists(f"/{name}"):
            os.makedirs(f"/{name}")
            os.chmod(f"/{name}", mode)
    for name, text in _FILES.items():
        if not os.path.lexists(f"/{name}"):
            fd = os.open(f"/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with os.fdopen(fd, "w") as file:
                file.write(text)
