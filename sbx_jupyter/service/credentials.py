"""The engine's API key, and the file with which clients of the same user find it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from sbx_jupyter.errors import InvalidArgumentError, SbxError
from sbx_jupyter.isolation.private_files import write_private
from sbx_jupyter.isolation.privileged.remote_fence import RemoteFence
from sbx_jupyter.protocol import access
from sbx_jupyter.protocol.locations import API_KEY_VARIABLE, ConnectionFile, connection_file_of

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence


def find_api_key(data_dir: Path, given: str | None) -> str:
    """``given``, else the key of this data directory, which is generated on first use.

    Raises ``InvalidArgumentError`` for a key that clients would reject, ``OSError``.
    """
    if given:
        if not access.is_api_key(given):
            raise InvalidArgumentError(
                f"{API_KEY_VARIABLE} must be e2b_ and hexadecimal digits, as clients check"
            )
        return given
    path = data_dir / "api_key"
    with contextlib.suppress(FileNotFoundError):
        kept = path.read_text().strip()
        if access.is_api_key(kept):
            return kept
    key = access.new_api_key()
    write_private(path, key.encode() + b"\n")
    return key


def connection_files(data_dir: Path, chosen: Path) -> tuple[Path, ...]:
    """The files in which an engine publishes its address: the usual one, and the chosen one."""
    usual = connection_file_of(data_dir)
    return (usual,) if chosen == usual else (usual, chosen)


async def publish(fence: AnyFence, path: Path, connection: ConnectionFile) -> None:
    """Write a connection file, by the helper where only root may; raises ``OSError``."""
    if isinstance(fence, RemoteFence) and not os.access(path.parent, os.W_OK):
        await fence.publish(msgspec.json.encode(connection).decode() + "\n")
    else:
        write_connection_file(path, connection)


async def withdraw(fence: AnyFence, path: Path, connection: ConnectionFile) -> None:
    """Remove a connection file if this engine wrote it."""
    if isinstance(fence, RemoteFence) and not os.access(path.parent, os.W_OK):
        with contextlib.suppress(OSError, SbxError):
            await fence.unpublish()
    else:
        remove_connection_file(path, connection)


def write_connection_file(path: Path, connection: ConnectionFile) -> None:
    """Write the file atomically, readable only by its owner; raises ``OSError``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, msgspec.json.encode(connection) + b"\n")


def remove_connection_file(path: Path, connection: ConnectionFile) -> None:
    """Remove the file if this engine wrote it."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        if msgspec.json.decode(path.read_bytes(), type=ConnectionFile).pid == connection.pid:
            path.unlink()
