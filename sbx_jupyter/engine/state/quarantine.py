"""Keeps files that no row names, with the date and the reason, instead of deleting them."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from sbx_jupyter.isolation.stored import setting_aside
from sbx_jupyter.protocol.disk import QuarantineUse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_log = logging.getLogger(__name__)

RETENTION: Final = dt.timedelta(days=30)
"""Entries older than this are removed at the next start."""

_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-(sandbox|volume|layer|record|store)-([\w:-]+(\.\d+)?)")


class Mover(Protocol):
    """Moves trees that only root may move; its method blocks."""

    def set_aside(self, name: str, kind: str, reason: str) -> str:
        """Move a tree of the data directory; returns the entry. Raises ``OSError``."""
        ...


class Entry(NamedTuple):
    """One thing in quarantine."""

    folder: Path
    kind: str
    """``sandbox``, ``volume``, ``layer``, ``record`` or ``store``."""

    name: str
    since: dt.datetime
    reason: str

    def to_use(self, own_bytes: int) -> QuarantineUse:
        """The entry of the report of disk use."""
        return QuarantineUse(
            kind=cast("Any", self.kind),
            name=self.name,
            since=self.since,
            reason=self.reason,
            path=str(self.content),
            own_bytes=own_bytes,
        )

    @property
    def content(self) -> Path:
        """Path of what was set aside, in the folder of the entry."""
        return self.folder / setting_aside.CONTENT

    def is_empty(self) -> bool:
        """Whether nothing was moved here: the engine was killed before. Blocking."""
        try:
            self.content.lstat()
        except FileNotFoundError:
            return True
        except OSError:  # only root may look
            return False
        return False

    @property
    def is_apart(self) -> bool:
        """Whether it is of an engine with a user of its own, and not of its helper."""
        return self.folder.parent.name == setting_aside.APART


class Quarantine:
    """The directory ``quarantine`` of a data directory.

    An engine with a user of its own keeps its files in ``quarantine-apart``.
    """

    def __init__(self, data_dir: Path, mover: Mover | None = None) -> None:
        """``mover`` is there where only root may move trees."""
        self._data_dir = data_dir
        self._mover = mover
        self.pending: dict[Path, str] = {}
        """Sandboxes that are set aside once their processes have ended, with the reasons."""

    def add(self, path: Path, kind: str, reason: str) -> None:
        """Move something here; blocking. Raises ``OSError`` and ``SbxError``."""
        if self._mover is None:
            folder = setting_aside.set_aside(
                path, self._data_dir / setting_aside.FOLDER, kind, reason
            )
        elif os.access(path.parent, os.W_OK) and path.lstat().st_uid == os.geteuid():
            folder = setting_aside.set_aside(
                path, self._data_dir / setting_aside.APART, kind, reason
            )
        else:
            name = str(path.relative_to(self._data_dir))
            folder = self._data_dir / self._mover.set_aside(name, kind, reason)
        _log.error("%s is set aside in %s: %s", path, folder, reason)

    def entries(self) -> list[Entry]:
        """The entries of the quarantine, oldest first; blocking."""
        found = [entry for entry in self._entries() if not entry.is_empty()]
        return sorted(found, key=lambda entry: (entry.since, entry.folder.name))

    def sweep(self) -> None:
        """Remove entries that an engine made and was killed before it moved anything there."""
        for entry in self._entries():
            if entry.is_empty():
                with contextlib.suppress(OSError):  # one of the helper, or there is no space
                    setting_aside.remove_empty(entry.folder)

    def _entries(self) -> Iterator[Entry]:
        for parent in (setting_aside.FOLDER, setting_aside.APART):
            found = self._data_dir / parent
            for folder in found.iterdir() if found.is_dir() else ():
                match = _NAME.fullmatch(folder.name)
                if match is None or folder.is_symlink():
                    continue
                since = dt.datetime.strptime(match[1], setting_aside.STAMP).replace(tzinfo=dt.UTC)
                yield Entry(folder, match[2], match[3], since, _reason(folder))


def _reason(folder: Path) -> str:
    try:
        return (folder / setting_aside.REASON).read_text(errors="replace").strip()
    except OSError:
        return ""
