"""One manifest: what it says, and how its file is written, replaced and checked when it is read."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.engine.state.integrity import checksum

if TYPE_CHECKING:
    from pathlib import Path

_HEAD: Final = b"sbx-manifest-1 "
_MOST_BYTES: Final = 16 << 20
DRAFT: Final = ".new"
"""Suffix of a manifest that is to replace another one, while it is being written."""


class Manifest(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The content of a manifest."""

    kind: str
    """The table of its row, or ``layers``."""

    key: str
    directory: str
    """The place it was written for, relative to the data directory."""

    store: bytes
    sequence: int
    """The transaction of the store that it is of."""

    record: dict[str, Any] | None = None
    """The row without what is sealed."""

    sealed: bytes = b""


class Found(msgspec.Struct, frozen=True):
    """A manifest on the disk, or the reason why it is none."""

    path: Path
    kind: str
    directory: str
    """The place that it lies beside or in, relative to the data directory."""

    manifest: Manifest | None
    problem: str = ""


def _encode(manifest: Manifest) -> bytes:
    body = msgspec.json.encode(manifest)
    return _HEAD + base64.b16encode(checksum(body)) + b"\n" + body + b"\n"


def _decode(raw: bytes) -> Manifest:
    """Parse a manifest; raises ``ValueError`` for a damaged one."""
    head, _, body = raw.partition(b"\n")
    if not body.endswith(b"\n") or head != _HEAD + base64.b16encode(checksum(body[:-1])):
        raise ValueError("its checksum is wrong")
    return msgspec.json.decode(body, type=Manifest)


def read(path: Path, kind: str, directory: str) -> Found:
    """The manifest in a file of a directory, with the problem of one that is none; blocking."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(path, flags), "rb") as file:
            manifest = _decode(file.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        return Found(path, kind, directory, None, str(error))
    if manifest.directory != directory:
        problem = f"it is the manifest of {manifest.directory}"
        return Found(path, kind, directory, None, problem)
    return Found(path, kind, directory, manifest)


def save(path: str, manifest: Manifest) -> None:
    """Write a file of mode 0600; one that is there is replaced by a rename. Raises ``OSError``.

    A new one may be there in part after a crash. Its row was not acknowledged then, and the next
    start writes it again.
    """
    content = _encode(manifest)
    try:
        _write(path, os.O_EXCL, content)
    except FileExistsError:
        draft = f"{path}{DRAFT}"
        _write(draft, os.O_TRUNC, content)
        try:
            os.rename(draft, path)
        except OSError:
            _discard(draft)
            raise


def _write(path: str, flag: int, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flag
    descriptor = os.open(path, flags, 0o600)
    try:
        if os.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    except OSError:
        _discard(path)
        raise
    finally:
        os.close(descriptor)


def _discard(path: str) -> None:
    """Remove an incomplete file; where that fails too, the next start finds it damaged."""
    with contextlib.suppress(OSError):
        os.unlink(path)
