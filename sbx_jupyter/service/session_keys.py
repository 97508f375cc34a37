"""Keys for one session of a Jupyter server, which the engine accepts while the session lasts."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

import msgspec

from sbx_jupyter.engine.owners import Caller
from sbx_jupyter.protocol import access
from sbx_jupyter.protocol.locations import session_key_dir, session_key_file
from sbx_jupyter.protocol.owners import SessionKeyFile

if TYPE_CHECKING:
    from pathlib import Path


class SessionKeys:
    """Checks keys against the files of ``session_key_file``.

    A file counts while the process that wrote it holds a lock on it, so a key ends with its
    session, also when that is killed. To remove the file revokes the key at once.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def find(self, key: str) -> Caller | None:
        """The caller that ``key`` stands for, if a session that is alive registered it."""
        if not access.is_api_key(key):
            return None
        path = session_key_file(self._data_dir, key)
        if not _is_held(path):
            return None
        try:
            found = msgspec.json.decode(path.read_bytes(), type=SessionKeyFile)
        except (OSError, msgspec.DecodeError):
            return None  # revoked in between, or not written by a session
        return Caller(found.owner, sees_all=found.sees_all or not found.owner)

    def sweep(self) -> None:
        """Remove the files of sessions that have ended."""
        with contextlib.suppress(FileNotFoundError):
            for path in session_key_dir(self._data_dir).iterdir():
                if not path.name.startswith(".") and not _is_held(path):
                    path.unlink(missing_ok=True)


def _is_held(path: Path) -> bool:
    """Whether another process holds a lock on the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # A shared lock, so that two checks at once do not take each other for the session.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
