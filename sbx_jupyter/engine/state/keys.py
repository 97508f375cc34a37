"""Keys of a data directory: made once and kept beside the store with mode 0600."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def load_or_make_key(path: Path, make: Callable[[], bytes]) -> bytes:
    """Read the key in a file; make the file with ``make`` if it does not exist.

    Two processes that do this at once get the same key: the file appears complete, and only the
    first process creates it.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(make())
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_bytes()
