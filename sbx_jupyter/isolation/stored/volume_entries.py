"""Describes the entries of a volume, as many as one answer may have.

Standard library only, for the zygote. Hostile code chose names, targets and times.
"""

from __future__ import annotations

import datetime as dt
import os
import stat
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.errors import ResourceExhaustedError

if TYPE_CHECKING:
    from pathlib import PurePosixPath

MAX_LISTING: Final = 60 << 20
"""Bytes of JSON, nearly, for about 100,000 entries; a message to a helper may have 64 MiB."""

_ENTRY_SIZE: Final = 150
"""Bytes that an entry has besides its texts, halved: it is counted by its name and by the rest."""

_FIRST_TIME: Final = dt.datetime.min.replace(tzinfo=dt.UTC).timestamp()
_LAST_TIME: Final = dt.datetime.max.replace(tzinfo=dt.UTC, microsecond=0).timestamp()


def fields_of(parent: int, name: str, path: PurePosixPath) -> dict[str, Any]:
    """The fields of an entry's ``VolumeEntry``. Raises ``OSError``."""
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    kind, target = "unknown", None
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "directory"
    elif stat.S_ISLNK(found.st_mode):
        kind, target = "symlink", os.readlink(name, dir_fd=parent)
    return {
        "name": _text(path.name or "/"),
        "type": kind,
        "path": _text(str(path)),
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "gid": found.st_gid,
        "atime": _time(found.st_atime),
        "mtime": _time(found.st_mtime),
        "ctime": _time(found.st_ctime),
        "target": None if target is None else _text(target),
    }


def _time(seconds: float) -> dt.datetime:
    """The nearest that a date can be: a sandbox may set any time."""
    return dt.datetime.fromtimestamp(min(max(seconds, _FIRST_TIME), _LAST_TIME), dt.UTC)


def names_in(folder: int, room: Room) -> list[str]:
    """The names in a directory. Raises ``OSError``, and as ``Room``."""
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            room.take(entry.name)
            names.append(entry.name)
    return names


class Room:
    """Counts down the bytes that a listing may have."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, *texts: str) -> None:
        """Make place for an entry, or the name of one; raises ``ResourceExhaustedError``."""
        self._left -= _ENTRY_SIZE + sum(len(encode_basestring_ascii(text)) for text in texts)
        if self._left < 0:
            raise ResourceExhaustedError(
                "there is too much in this directory for one listing; ask for less depth"
            )


def _text(name: str) -> str:
    """The name as valid UTF-8: other bytes become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")
