"""The key that kernels of this server see: for sandboxes only, and only while the server lives."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

import msgspec

from sbx_jupyter.protocol.access import new_api_key
from sbx_jupyter.protocol.locations import session_key_file
from sbx_jupyter.protocol.owners import SessionKeyFile

if TYPE_CHECKING:
    from pathlib import Path


class SessionKey:
    """A key of the engine of ``data_dir``, narrower than the engine's own.

    The engine accepts it from ``register`` to ``revoke``, or until this process ends.
    """

    def __init__(self, data_dir: Path, owner: str = "", *, sees_all: bool = False) -> None:
        """``owner``: whose sandboxes the key may use, and with ``sees_all`` those of others too;
        without an owner, all."""
        self._content = SessionKeyFile(pid=os.getpid(), owner=owner, sees_all=sees_all)
        self.value = new_api_key()
        self._path = session_key_file(data_dir, self.value)
        self._descriptor: int | None = None

    def register(self) -> None:
        """Let the engine accept the key; does nothing the second time. Raises ``OSError``."""
        if self._descriptor is not None:
            return
        folder = self._path.parent
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        inside = _open_folder(folder)
        try:
            self._descriptor = self._write(inside)
        finally:
            os.close(inside)

    def _write(self, folder: int) -> int:
        """Make the file in a directory; gives its descriptor, which holds the lock on it."""
        import fcntl  # not on Windows, where the extension runs with other deployments

        # Locked before it has its name: the engine removes files that nobody holds.
        name, draft = self._path.name, f".{self._path.name}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, msgspec.json.encode(self._content) + b"\n")
            if os.geteuid() == 0:
                of_engine = os.fstat(folder)
                os.fchown(descriptor, of_engine.st_uid, of_engine.st_gid)
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
            raise
        return descriptor

    def revoke(self) -> None:
        """Make the engine refuse the key."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None


def _open_folder(folder: Path) -> int:
    """A descriptor of the directory, made where it is missing, that the engine can read.

    An engine of root may serve as a user of its own, whose id is then that of the data directory's
    group. It can make entries in that sticky directory, so no link is followed.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return os.open(folder, flags)
    made = os.open(folder, flags)
    above = folder.parent.stat()
    if os.geteuid() == 0 and above.st_mode & stat.S_ISVTX:
        os.fchown(made, above.st_gid, above.st_gid)
    return made
