"""The key that kernels of this server see: for sandboxes only, and only while the server lives."""

from __future__ import annotations

import contextlib
import os
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
        import fcntl  # not on Windows, where the extension runs with other deployments

        if self._descriptor is not None:
            return
        folder = self._path.parent
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        # Locked before it has its name: the engine removes files that nobody holds.
        draft = folder / f".{self._path.name}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, msgspec.json.encode(self._content) + b"\n")
            draft.rename(self._path)
        except BaseException:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
            raise
        self._descriptor = descriptor

    def revoke(self) -> None:
        """Make the engine refuse the key."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None
