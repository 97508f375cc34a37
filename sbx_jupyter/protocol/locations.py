"""Where the user's shared engine keeps its state, agreed on by the engine and its clients."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

DATA_DIR_VARIABLE: Final = "SBX_DATA_DIR"
API_KEY_VARIABLE: Final = "SBX_API_KEY"
"""The key that an engine started with this variable accepts; else it makes one and keeps it."""


class ConnectionFile(msgspec.Struct, kw_only=True, frozen=True):
    """What an engine writes, mode 0600 and atomically, once it listens."""

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
    """Where an engine that was started on demand writes its log."""
    return data_dir / "engine.log"
