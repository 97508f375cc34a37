"""The data directory of an engine: its lock and the paths in it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hmac
import os
import re
import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.state import leftovers
from sbx_jupyter.engine.state.keys import load_or_make_key
from sbx_jupyter.engine.state.mount_point import check_mounted
from sbx_jupyter.errors import FailedPreconditionError, InternalError, NoSpaceError, SbxError, see
from sbx_jupyter.isolation.privileged import account

if TYPE_CHECKING:
    from pathlib import Path

_HIDDEN = "."
_LOCK: Final = "engine.lock"
_DRAFT: Final = re.compile(r"\.[\w.-]+\.\d+|[a-z]+\.key(\.copy)?\.[0-9a-f]{16}")
"""The names under which files of the directory itself are written before they get their own."""

WRITABLE = re.compile(leftovers.SANDBOX_ID.pattern + r"(\.[0-9a-f]{32})?")
_NO_SPACE = ("No space left on device", "Disk quota exceeded")


def translate(error: OSError | SbxError, doing: str) -> SbxError:
    """Turn a failure on the engine's disk into a domain error; ``doing`` says what failed.

    Returns ``NoSpaceError`` for a full disk, another ``SbxError`` as it is, and ``InternalError``
    for any other ``OSError``. The text is searched too, because programs such as ``cp`` report a
    full disk by their message only.
    """
    if is_no_space(error):
        return NoSpaceError(f"no space left while {doing}")
    return error if isinstance(error, SbxError) else InternalError(f"{doing} failed: {error}")


def is_no_space(error: BaseException) -> bool:
    """Whether a disk or quota without space, or without inodes, is the cause of an error."""
    if isinstance(error, NoSpaceError):
        return True
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return is_full or any(text in str(error) for text in _NO_SPACE)


class DataDir:
    """The engine's directory, locked while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None
        self._key: bytes | None = None
        self._known: dict[str, str] = {}

    @property
    def database(self) -> Path:
        return self.path / "engine.db"

    @property
    def sandboxes(self) -> Path:
        return self.path / "sandboxes"

    @property
    def layers(self) -> Path:
        return self.path / "layers"

    @property
    def manifests(self) -> Path:
        """The manifests of what has no directory of its own."""
        return self.path / "manifests"

    @property
    def manifests_apart(self) -> Path:
        """The manifests of trees that the engine cannot write beside, as a user of its own."""
        return self.path / "manifests-apart"

    @property
    def history(self) -> Path:
        return self.path / "metrics"

    def writable(self, sandbox_id: str) -> Path:
        """The writable layer of a sandbox, which contains ``upper`` and ``work``.

        Part of its name is derived from a secret key, so that the path cannot be guessed from the
        sandbox's id: without namespaces, another sandbox could open a path that it knows.
        """
        return self.path / self.name_of_writable(sandbox_id)

    def name_of_writable(self, sandbox_id: str) -> str:
        """The name of the writable layer of a sandbox in the data directory."""
        if (known := self._known.get(sandbox_id)) is not None:
            return f"sandboxes/{known}"
        name = hmac.digest(self._secret(), sandbox_id.encode(), "sha256")[:16].hex()
        return f"sandboxes/{sandbox_id}{_HIDDEN}{name}"

    def _secret(self) -> bytes:
        if self._key is None:
            self._key = load_or_make_key(self.path / "paths.key", lambda: os.urandom(32))
        return self._key

    def run(self, sandbox_id: str) -> Path:
        """The directory of a sandbox's agent socket and terminal scrollback."""
        return self.path / "run" / sandbox_id

    def sandbox_directories(self) -> list[str]:
        """The names of the directories that hold writable layers; blocking."""
        return leftovers.directories(self.sandboxes, WRITABLE, is_logged=False)

    def layer_directories(self) -> list[str]:
        """The names of the layers as rows have them; blocking."""
        found = leftovers.directories(self.layers, leftovers.UUID, is_logged=False)
        return [f"layers/{name}" for name in found]

    def volume_directories(self) -> list[str]:
        """The ids of the volumes that have a directory; blocking."""
        if not (folder := self.path / "volumes").is_dir():
            return []
        return leftovers.directories(folder, leftovers.UUID, is_logged=False)

    def describe_contents(self) -> str:
        """Count sandboxes, layers, volumes and records, in words; empty if none. Blocking."""
        counts = {
            "sandboxes": len(self.sandbox_directories()),
            "layers": len(self.layer_directories()),
            "volumes": len(self.volume_directories()),
            "records": len(os.listdir(self.manifests)),
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)

    def found_sandboxes(self) -> set[str]:
        """The ids of all sandboxes that have a directory here; blocking."""
        layers = leftovers.directories(self.sandboxes, WRITABLE)
        run = leftovers.directories(self.path / "run", leftovers.SANDBOX_ID)
        return {*(name.partition(_HIDDEN)[0] for name in layers), *run}

    def open(self, *, keeps_owners: bool = False) -> None:
        """Make the directory and lock it; others lose their permissions to it.

        Files of an engine with a user of its own become root's again, unless ``keeps_owners``.

        Raises ``FailedPreconditionError`` with the pid of the other engine when one has locked it,
        when the directory belongs to another user or is a file system that is not mounted, and
        ``NoSpaceError`` and ``InternalError`` when it cannot be made.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_mounted(self.path)
            self._check_owner()
            lock = take_lock(self.path)
        except OSError as error:
            raise translate(error, f"making the data directory {self.path}") from error
        try:
            self._prepare(keeps_owners=keeps_owners)
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(lock)
            raise translate(error, f"making the data directory {self.path}") from error
        self._lock = lock
        # They keep their names even when the key that they were derived from is lost.
        self._known = {name.partition(_HIDDEN)[0]: name for name in self.sandbox_directories()}

    def _prepare(self, *, keeps_owners: bool) -> None:
        """Make missing files and directories; the lock is held."""
        if not keeps_owners:
            account.take_back(self.path)
            self.path.chmod(0o700)
        # Unfinished drafts of a killed engine. The lock is held, so nobody writes them now.
        for name in os.listdir(self.path):
            if _DRAFT.fullmatch(name) and (self.path / name).is_file():
                (self.path / name).unlink()
        run = self.path / "run"
        for below in (self.sandboxes, self.layers, run, self.history, self.manifests):
            below.mkdir(mode=0o700, exist_ok=True)
        for below in (self.sandboxes, self.layers, run):
            set_top_directory_flag(below)

    def _check_owner(self) -> None:
        """Refuse the directory of another user, who could change what is in it at any time."""
        owner = self.path.stat().st_uid
        if owner != os.getuid():
            raise FailedPreconditionError(
                f"the data directory {self.path} belongs to the user with id {owner}, the engine "
                f"runs as {os.getuid()}: give it a directory of its own with --data-dir"
                f"{see('storage')}"
            )

    def close(self) -> None:
        """Release the lock. The lock file stays: removing it would race with the next engine."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def take_lock(path: Path, name: Path | None = None) -> int:
    """Lock a data directory, which messages call ``name``, until the descriptor is closed.

    Raises ``FailedPreconditionError`` with the pid of the holder, and ``OSError``.
    """
    name = name or path
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(path / _LOCK, flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # It may have been moved since the first look: then this is the lock of the old place, or
        # of the new one before anything is mounted there.
        check_mounted(path)
        if not os.path.samestat(os.fstat(lock), os.lstat(path / _LOCK)):
            raise FailedPreconditionError(f"the data directory {name} is being moved: try again")
    except BlockingIOError as error:
        owner = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise FailedPreconditionError(
            f"the data directory {name} is in use by another engine, pid {owner}"
        ) from error
    except BaseException:
        os.close(lock)
        raise
    return lock


_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_TOP_DIRECTORY: Final = 0x00020000
_FLAGS: Final = struct.Struct("I4x")


def set_top_directory_flag(directory: Path) -> None:
    """Ask ext4 to spread the subdirectories of ``directory`` over the disk.

    By default, ext4 puts a new directory near its parent, and does not reuse the inode of a removed
    file for minutes. Where many sandboxes are made and removed, it searches past all the removed
    inodes for each new file, which then takes seven times as long. With this flag, ext4 treats the
    subdirectories as unrelated to each other. Other file systems have neither the flag nor the
    search; their error is ignored.
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            flags = _FLAGS.unpack(fcntl.ioctl(fd, _GET_FLAGS, bytes(_FLAGS.size)))[0]
            fcntl.ioctl(fd, _SET_FLAGS, _FLAGS.pack(flags | _TOP_DIRECTORY))
    finally:
        os.close(fd)
