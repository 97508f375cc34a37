"""Reads and changes the files of one volume from outside of sandboxes (interface 1.6.2).

Hostile code writes to volumes too, so the kernel resolves every path inside the root of the volume
(``openat2`` with ``RESOLVE_IN_ROOT``): no link and no ``..`` leads out of it. All calls here may
block on the disk; callers run them in threads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbx_jupyter.agent.files.removal import remove
from sbx_jupyter.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NoSpaceError,
    NotFoundError,
    PermissionDeniedError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.isolation.kernel.syscalls import RESOLVE_IN_ROOT, openat2
from sbx_jupyter.isolation.stored.volume_entries import MAX_LISTING, Room, fields_of, names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from sbx_jupyter.protocol.volumes import VolumeEntry

MAX_DEPTH: Final = 10
DEFAULT_OWNER: Final = 9090
DEFAULT_DIRECTORY_MODE: Final = 0o777
DEFAULT_FILE_MODE: Final = 0o666
_MAX_PATH: Final = 4096
_ATTEMPTS: Final = 100
_DRAFT: Final = ".sbx-upload"
_DRAFT_NAME: Final = re.compile(r"\.[0-9a-f]{16}" + re.escape(_DRAFT))


class Draft(NamedTuple):
    """A file that is being written, beside the one that it will be."""

    descriptor: int
    name: str
    """The name of the draft, in the same directory."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner and mode for an entry; ``None`` means the default of the interface."""

    uid: int | None = None
    gid: int | None = None
    mode: int | None = None


def clean_path(path: str) -> PurePosixPath:
    """Make a path absolute, without ``.`` and ``..``; raises ``InvalidArgumentError``."""
    if not path or "\0" in path or len(path.encode("utf-8", "surrogatepass")) > _MAX_PATH:
        raise InvalidArgumentError("path must have 1 to 4096 bytes and no NUL")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return PurePosixPath("/", *parts)


def _record(**fields: Any) -> VolumeEntry:
    # Not above: the zygote, which makes other records, has the standard library only.
    from sbx_jupyter.protocol.volumes import VolumeEntry

    return VolumeEntry(**fields)


class VolumeContent:
    """The tree of one volume. Every method raises the errors of ``sbx_jupyter.errors``."""

    def __init__(
        self, root: Path, *, real_ids: bool, record: Callable[..., VolumeEntry] = _record
    ) -> None:
        """``record`` makes what stands for an entry of its fields."""
        self._root = root
        self._real_ids = real_ids
        self._record = record

    def stat(self, path: str) -> VolumeEntry:
        """The entry at a path; a link in its last part is not followed."""
        cleaned = clean_path(path)
        with self._parent(cleaned) as (parent, name):
            return self._entry(parent, name, cleaned)

    def change(self, path: str, ownership: Ownership) -> VolumeEntry:
        """Set owner and mode, except those that are ``None`` or negative."""
        cleaned = clean_path(path)
        with self._parent(cleaned) as (parent, name), _open(parent, name, os.O_PATH) as entry:
            self._set_owner(entry, _keep(ownership.uid), _keep(ownership.gid))
            if ownership.mode is not None and ownership.mode >= 0:
                if stat.S_ISLNK(os.fstat(entry).st_mode):
                    raise InvalidArgumentError("a symbolic link has no mode of its own")
                os.chmod(f"/proc/self/fd/{entry}", ownership.mode & 0o7777)
            return self._entry(parent, name, cleaned)

    def remove(self, path: str) -> None:
        """Remove an entry, recursively."""
        cleaned = clean_path(path)
        if cleaned.name == "":
            raise InvalidArgumentError("cannot delete root")
        with self._parent(cleaned) as (parent, name):
            os.stat(name, dir_fd=parent, follow_symlinks=False)  # a missing one is an error
            remove(name, directory=parent, opens_closed=True)

    def list_dir(self, path: str, depth: int = 1) -> list[VolumeEntry]:
        """The entries below a directory, ``depth`` levels deep: parents first, names sorted.

        Raises ``ResourceExhaustedError`` for more than ``MAX_LISTING`` bytes of JSON.
        """
        if not 0 <= depth <= MAX_DEPTH:
            raise InvalidArgumentError(f"depth must be between 0 and {MAX_DEPTH}")
        cleaned = clean_path(path)
        with self._parent(cleaned) as (parent, name), _open(parent, name, os.O_DIRECTORY) as folder:
            return list(self._walk(folder, cleaned, depth or 1, Room(MAX_LISTING)))

    def make_dir(self, path: str, ownership: Ownership, *, force: bool) -> VolumeEntry:
        """Make a directory; with ``force`` also its parents, and it may exist already."""
        cleaned = clean_path(path)
        if force:
            self._make_parents(cleaned)
        with self._parent(cleaned) as (parent, name):
            try:
                if name == ".":
                    raise FileExistsError(errno.EEXIST, "exists")
                self._make_one(parent, name, ownership)
            except FileExistsError as error:
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
                if not force or not stat.S_ISDIR(mode):
                    raise AlreadyExistsError(f"path '{cleaned}' already exists") from error
            return self._entry(parent, name, cleaned)

    def open_read(self, path: str) -> tuple[int, int]:
        """Open a regular file; returns a descriptor, which the caller closes, and the size."""
        cleaned = clean_path(path)
        with _converted_errors(cleaned), self._opened_root() as root:
            flags = os.O_RDONLY | os.O_NONBLOCK
            descriptor = _open_inside(root, str(cleaned), flags)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            kind = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise InvalidArgumentError(f"path '{cleaned}' is {kind}")
        return descriptor, found.st_size

    def open_write(self, path: str, ownership: Ownership, *, force: bool) -> Draft:
        """Make an empty file beside the one at a path, whose place ``finish_write`` gives it.

        Without ``force`` the file must not exist and its parent must exist. With ``force``, parents
        are made, and an existing file is replaced. The caller closes the descriptor.
        """
        cleaned = clean_path(path)
        if cleaned.name == "":
            raise InvalidArgumentError("path '/' is a directory")
        if force:
            self._make_parents(cleaned)
        draft = f".{secrets.token_hex(8)}{_DRAFT}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with self._parent(cleaned) as (parent, name):
            _check_replaceable(parent, name, force=force)
            descriptor = _open_inside(parent, draft, flags, mode=0o600)
            try:
                self._set_owner(descriptor, _or_default(ownership.uid), _or_default(ownership.gid))
                os.fchmod(descriptor, _mode(ownership, DEFAULT_FILE_MODE))
            except BaseException:
                os.close(descriptor)
                os.unlink(draft, dir_fd=parent)
                raise
        return Draft(descriptor, draft)

    def finish_write(self, path: str, draft: str, *, force: bool) -> None:
        """Give a draft its name, when all of its content is written."""
        _check_draft(draft)
        with self._parent(clean_path(path)) as (parent, name):
            try:
                if force:
                    os.replace(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
                else:
                    # Hostile code may have put a link to elsewhere in the place of the draft.
                    os.link(
                        draft, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False
                    )
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=parent)

    def drop_write(self, path: str, draft: str) -> None:
        """Remove a draft whose content did not arrive."""
        _check_draft(draft)
        with self._parent(clean_path(path)) as (parent, _):
            os.unlink(draft, dir_fd=parent)

    def _make_parents(self, path: PurePosixPath) -> None:
        for parent in reversed(path.parents[:-1]):
            with self._parent(parent) as (folder, name), contextlib.suppress(FileExistsError):
                self._make_one(folder, name, Ownership())

    def _make_one(self, parent: int, name: str, ownership: Ownership) -> None:
        os.mkdir(name, 0o700, dir_fd=parent)
        with _open(parent, name, os.O_RDONLY | os.O_DIRECTORY) as made:
            self._set_owner(made, _or_default(ownership.uid), _or_default(ownership.gid))
            os.fchmod(made, _mode(ownership, DEFAULT_DIRECTORY_MODE))

    def _set_owner(self, descriptor: int, uid: int, gid: int) -> None:
        # Without real ids, all users of a sandbox are one user of the host.
        if self._real_ids and (uid, gid) != (-1, -1):
            try:
                os.chown(f"/proc/self/fd/{descriptor}", uid, gid)
            except OSError as error:
                if error.errno == errno.EINVAL:
                    raise InvalidArgumentError(
                        f"sandboxes of this engine have no user {uid} or no group {gid}"
                    ) from error
                raise

    def _walk(
        self, folder: int, path: PurePosixPath, depth: int, room: Room
    ) -> Iterator[VolumeEntry]:
        for name in sorted(names_in(folder, room), key=os.fsencode):
            try:
                fields = fields_of(folder, name, path / name)
            except FileNotFoundError:
                continue
            room.take(*(fields[text] or "" for text in ("path", "target")))
            yield self._record(**fields)
            if fields["type"] == "directory" and depth > 1:
                # It may have been removed, or replaced by a link, since it was listed.
                with (
                    contextlib.suppress(FileNotFoundError, NotADirectoryError),
                    _open(folder, name, os.O_RDONLY | os.O_DIRECTORY) as inner,
                ):
                    yield from self._walk(inner, path / name, depth - 1, room)

    def _entry(self, parent: int, name: str, path: PurePosixPath) -> VolumeEntry:
        return self._record(**fields_of(parent, name, path))

    @contextlib.contextmanager
    def _opened_root(self) -> Generator[int]:
        root = os.open(self._root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield root
        finally:
            os.close(root)

    @contextlib.contextmanager
    def _parent(self, path: PurePosixPath) -> Generator[tuple[int, str]]:
        """Open the parent folder of a path; yields its descriptor and the last part's name."""
        with _converted_errors(path):
            with self._opened_root() as root:
                flags = os.O_PATH | os.O_DIRECTORY
                parent = _open_inside(root, str(path.parent), flags)
            try:
                yield parent, path.name or "."
            finally:
                os.close(parent)


def _check_draft(name: str) -> None:
    if not _DRAFT_NAME.fullmatch(name):
        raise InvalidArgumentError(f"'{name}' is no file that is being written")


def _check_replaceable(parent: int, name: str, *, force: bool) -> None:
    """Raise unless there is no file of this name, or with ``force`` a regular one; ``OSError``."""
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not force:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _open_inside(root: int, path: str, flags: int, *, mode: int = 0) -> int:
    """Open a path as if ``root`` were the root directory. Raises ``OSError``."""
    for _ in range(_ATTEMPTS):
        # With ".." in a link, any rename on the machine meanwhile lets the kernel give up.
        with contextlib.suppress(BlockingIOError):
            return openat2(root, path, flags, resolve=RESOLVE_IN_ROOT, mode=mode)
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@contextlib.contextmanager
def _open(parent: int, name: str, flags: int) -> Generator[int]:
    """Open an entry itself, never the target of a link."""
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _converted_errors(path: PurePosixPath) -> Generator[None]:
    """Convert ``OSError`` to the errors of ``sbx_jupyter.errors``."""
    try:
        yield
    except OSError as error:
        raise _error_for(error, path) from error


def _error_for(error: OSError, path: PurePosixPath) -> SbxError:
    match error.errno:
        case errno.ENOENT:
            return NotFoundError(f"path '{path}' not found")
        case errno.EEXIST:
            return AlreadyExistsError(f"path '{path}' already exists")
        case errno.ENOTDIR:
            return InvalidArgumentError(f"a part of '{path}' is not a directory")
        case errno.EISDIR:
            return InvalidArgumentError(f"path '{path}' is a directory")
        case errno.ELOOP | errno.ENXIO | errno.EXDEV:
            return InvalidArgumentError(f"path '{path}' is a link or a special file")
        case errno.ENAMETOOLONG:
            return InvalidArgumentError("a part of the path is too long")
        case errno.ENOSPC | errno.EDQUOT:
            return NoSpaceError("no space left for the volume")
        case errno.EAGAIN:
            return UnavailableError(f"path '{path}' changes too fast; ask again")
        case errno.EACCES | errno.EPERM:
            return PermissionDeniedError(f"path '{path}': {error.strerror}")
        case _:
            return InternalError(f"path '{path}': {error.strerror}")


def _keep(value: int | None) -> int:
    return -1 if value is None or value < 0 else value


def _or_default(value: int | None) -> int:
    return DEFAULT_OWNER if value is None or value < 0 else value


def _mode(ownership: Ownership, default: int) -> int:
    return default if ownership.mode is None or ownership.mode < 0 else ownership.mode & 0o7777
