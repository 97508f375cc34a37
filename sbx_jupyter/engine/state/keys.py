"""Keys of a data directory: made once and kept beside the store with mode 0600, each twice.

A file holds a key with a checksum that is bound to the file's name, so that a damaged or exchanged
key is noticed, and is restored from its copy.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import secrets
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.state.integrity import checksum, damage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_log = logging.getLogger(__name__)

SECRETS_KEY: Final = "secrets.key"
"""The key that encrypts secrets and seals manifests; a file of the data directory."""

_HEAD: Final = b"sbx-key-1 "


def load_or_make_key(path: Path, make: Callable[[], bytes]) -> bytes:
    """Read the key in a file; make the file with ``make`` if neither it nor its copy exists.

    Two processes that do this at once get the same key: the file appears complete, and only the
    first process creates it. Raises ``DataLossError`` when the key and its copy are damaged.
    """
    raw, raw_copy = _content(path), _content(copy_of(path))
    key = _parse(path.name, raw) or _parse(path.name, raw_copy)
    if key is None and raw is not None and len(raw) == len(make()):
        key = raw  # as earlier versions wrote it
    if key is None:
        if raw is not None or raw_copy is not None:
            state = "empty" if raw == b"" else "missing" if raw is None else "damaged"
            raise damage(f"the key {path} is {state}, and so is its copy {copy_of(path).name}")
        key = make()
    content = _format(path.name, key)
    if raw is None:
        _create(path, content)
        key = _parse(path.name, _content(path)) or key
        content = _format(path.name, key)
    elif raw != content:
        if len(raw) != len(key):
            _log.warning("the key %s was damaged and is restored from its copy", path)
        _overwrite(path, content)
    if raw_copy != content:
        _overwrite(copy_of(path), content)
    return key


def copy_of(path: Path) -> Path:
    """Path of the second copy of a key."""
    return path.with_name(f"{path.name}.copy")


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _format(name: str, key: bytes) -> bytes:
    text = base64.b64encode(key)
    return _HEAD + text + b" " + base64.b16encode(checksum(name.encode(), key)) + b"\n"


def _parse(name: str, raw: bytes | None) -> bytes | None:
    """The key in the content of a file; ``None`` when it is not one of that name."""
    if raw is None or not raw.startswith(_HEAD):
        return None
    text = raw[len(_HEAD) :].split(b" ", 1)[0]
    with contextlib.suppress(ValueError):
        key = base64.b64decode(text, validate=True)
        if raw == _format(name, key):
            return key
    return None


def _create(path: Path, content: bytes) -> None:
    """Make a file that is complete from the first, unless another process was faster."""
    draft = _write_draft(path, content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _overwrite(path: Path, content: bytes) -> None:
    draft = _write_draft(path, content)
    try:
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _write_draft(path: Path, content: bytes) -> Path:
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink()
        raise
    return draft
