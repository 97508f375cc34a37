"""Moves something of a data directory to where it is kept with a date and a reason."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

FOLDER: Final = "quarantine"
"""The directory in a data directory."""

APART: Final = "quarantine-apart"
"""The same for files of an engine with a user of its own."""

CONTENT: Final = "content"
REASON: Final = "reason"
STAMP: Final = "%Y%m%dT%H%M%SZ"
_MOST_NAMES: Final = 1000


def set_aside(path: Path, into: Path, kind: str, reason: str, *, group: int = -1) -> Path:
    """Move something to an entry of its own in ``into``, and return that; blocking.

    Members of ``group`` may read the reason. Raises ``OSError``.
    """
    into.mkdir(mode=0o700, exist_ok=True)
    entry = _make_entry(into, f"{kind}-{path.name.partition('.')[0]}")
    try:
        (entry / REASON).write_text(f"{reason}\n")
        path.rename(entry / CONTENT)
    except OSError:
        with contextlib.suppress(OSError):
            remove_empty(entry)
        raise
    if group != -1:
        show(entry, group)
    return entry


def _make_entry(into: Path, name: str) -> Path:
    stamp = dt.datetime.now(dt.UTC).strftime(STAMP)
    for number in range(_MOST_NAMES):
        suffix = f".{number}" if number else ""
        entry = into / f"{stamp}-{name}{suffix}"
        with contextlib.suppress(FileExistsError):
            entry.mkdir(mode=0o700)
            return entry
    raise OSError(f"{into} has too many entries of {name}")


def remove_empty(entry: Path) -> None:
    """Remove an entry that nothing was moved to; raises ``OSError``."""
    (entry / REASON).unlink(missing_ok=True)
    entry.rmdir()


def show(entry: Path, group: int) -> None:
    """Let a group see an entry and read its reason; what was set aside keeps its owner and mode.

    Raises ``OSError``.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = os.open(entry, flags | os.O_DIRECTORY)
    try:
        with contextlib.suppress(FileNotFoundError):
            reason = os.open(REASON, flags, dir_fd=folder)
            try:
                os.fchown(reason, -1, group)
                os.fchmod(reason, 0o640)
            finally:
                os.close(reason)
        os.fchown(folder, -1, group)
        os.fchmod(folder, 0o750)
    finally:
        os.close(folder)
