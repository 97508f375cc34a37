"""The paths of the user's shared engine, which the engine and its clients use."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

DATA_DIR_VARIABLE: Final = "SBX_DATA_DIR"
API_KEY_VARIABLE: Final = "SBX_API_KEY"
"""The API key that an engine accepts; without this variable it generates one and stores it."""
KERNEL_SANDBOX_VARIABLE: Final = "SBX_KERNEL_SANDBOX"
"""Variable in the environment of a kernel's start: the id of the sandbox for the kernel."""


class ConnectionFile(msgspec.Struct, kw_only=True, frozen=True):
    """The file that an engine writes when it listens; atomically and with mode 0600."""

    url: str
    api_key: str
    pid: int
    version: str

    def __repr__(self) -> str:
        return f"ConnectionFile(url={self.url!r}, pid={self.pid}, version={self.version!r})"


def default_data_dir() -> Path:
    """``$SBX_DATA_DIR``, else ``sbx-jupyter`` in the user's data home."""
    if chosen := os.environ.get(DATA_DIR_VARIABLE):
        return Path(chosen).expanduser().absolute()
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data_home).expanduser().absolute() / "sbx-jupyter"


def connection_file_of(data_dir: Path) -> Path:
    """The connection file of the engine that owns ``data_dir``."""
    return data_dir / "engine.json"


def log_file_of(data_dir: Path) -> Path:
    """The log of an engine that was started on demand."""
    return data_dir / "engine.log"


def session_key_file(data_dir: Path, key: str) -> Path:
    """The file that makes an engine accept ``key`` while a process holds a lock (flock) on it.

    Its name is a digest of the key, so that the directory gives no key away.
    """
    return session_key_dir(data_dir) / hashlib.sha256(key.encode()).hexdigest()


def session_key_dir(data_dir: Path) -> Path:
    """The directory of the files that name the keys of sessions."""
    return data_dir / "session-keys"
