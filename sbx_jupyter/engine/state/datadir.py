"""The data directory: who owns it, and where things are in it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hmac
import os
import struct
from pathlib import Path
from typing import Final

from sbx_jupyter.engine.state.keys import load_or_make_key
from sbx_jupyter.errors import FailedPreconditionError, InternalError, NoSpaceError, SbxError

_HIDDEN = "."
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """What tells this boot of the machine from others."""
    return _BOOT_ID.read_text().strip()


_NO_SPACE = ("No space left on device", "Disk quota exceeded")


def translate(error: OSError | SbxError, doing: str) -> SbxError:
    """The domain error for what went wrong on the engine's own disk.

    A full disk is found in the text too: helpers such as ``cp`` only say it in words.
    """
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if is_full or any(text in str(error) for text in _NO_SPACE):
        return NoSpaceError(f"no space left while {doing}")
    return error if isinstance(error, SbxError) else InternalError(f"{doing} failed: {error}")


class DataDir:
    """The engine's directory, locked while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None
        self._key: bytes | None = None

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
    def history(self) -> Path:
        return self.path / "metrics"

    def writable(self, sandbox_id: str) -> Path:
        """The writable layer of a sandbox: ``upper`` and ``work`` are below it.

        Its name cannot be guessed by who knows the id: without namespaces another sandbox could
        reach out to a path that it knows.
        """
        plain = self.sandboxes / sandbox_id
        if plain.is_dir():  # of an earlier version
            return plain
        name = hmac.digest(self._secret(), sandbox_id.encode(), "sha256")[:16].hex()
        return self.sandboxes / f"{sandbox_id}{_HIDDEN}{name}"

    def _secret(self) -> bytes:
        if self._key is None:
            self._key = load_or_make_key(self.path / "paths.key", lambda: os.urandom(32))
        return self._key

    def run(self, sandbox_id: str) -> Path:
        """Where the agent's socket and the scrollback of a sandbox are."""
        return self.path / "run" / sandbox_id

    def found_sandboxes(self) -> set[str]:
        """The ids of all sandboxes that have a directory here; blocking."""
        layers = {name.partition(_HIDDEN)[0] for name in os.listdir(self.sandboxes)}
        return {*layers, *os.listdir(self.path / "run")}

    def open(self) -> None:
        """Make the directory and lock it.

        Raises ``FailedPreconditionError`` when another engine has it, naming that one's pid.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            for below in (self.sandboxes, self.layers, self.path / "run", self.history):
                below.mkdir(mode=0o700, exist_ok=True)
            for below in (self.sandboxes, self.layers, self.path / "run"):
                set_top_directory_flag(below)
            lock = os.open(self.path / "engine.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise translate(error, f"making the data directory {self.path}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise FailedPreconditionError(
                f"the data directory {self.path} is in use by another engine, pid {owner}"
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    def close(self) -> None:
        """Give the lock back; the file stays, since removing it would race with the next owner."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_TOP_DIRECTORY: Final = 0x00020000
_FLAGS: Final = struct.Struct("I4x")


def set_top_directory_flag(directory: Path) -> None:
    """Ask the file system to put what is made in a directory into different places.

    ext4 puts directories near the one that they are in, and does not give an inode to a new file
    for minutes after it was removed. Where many sandboxes come and go it searches past all that are
    gone for each new file: seven times as long as elsewhere. It takes a directory with this flag
    for one whose contents have nothing to do with each other. Other file systems have no such flag,
    and no such search.
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            flags = _FLAGS.unpack(fcntl.ioctl(fd, _GET_FLAGS, bytes(_FLAGS.size)))[0]
            fcntl.ioctl(fd, _SET_FLAGS, _FLAGS.pack(flags | _TOP_DIRECTORY))
    finally:
        os.close(fd)
