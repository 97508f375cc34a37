"""What belongs to no row and may still be wanted: set aside with a date and the reason."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from sbx_jupyter.engine.state.rows import now
from sbx_jupyter.errors import FailedPreconditionError
from sbx_jupyter.protocol.disk import QuarantineUse

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)

RETENTION: Final = dt.timedelta(days=30)
"""What is older is removed at the next start."""

_STAMP: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-(sandbox|volume|layer|record|store)-(.+)")
_CONTENT: Final = "content"
_REASON: Final = "reason"
_MOST_NAMES: Final = 1000


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
        """What was set aside, under a name of its own."""
        return self.folder / _CONTENT


class Quarantine:
    """The directory ``quarantine`` of a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / "quarantine"
        self.pending: dict[Path, str] = {}
        """Sandboxes that are set aside once their processes have ended, with the reasons."""

    def add(self, path: Path, kind: str, reason: str) -> Entry:
        """Move something here; blocking.

        Raises ``OSError``, and ``FailedPreconditionError`` where only root may move it.
        """
        if not os.access(path.parent, os.W_OK):
            raise FailedPreconditionError(
                f"{path} belongs to no row and has to be set aside, for which the engine must be"
                " started once as root, with --SbxEngine.user_id=0"
            )
        self._folder.mkdir(mode=0o700, exist_ok=True)
        at = now().replace(microsecond=0)
        name = path.name.partition(".")[0]
        for number in range(_MOST_NAMES):
            suffix = f".{number}" if number else ""
            folder = self._folder / f"{at.strftime(_STAMP)}-{kind}-{name}{suffix}"
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                break
        else:
            raise OSError(f"{self._folder} has too many entries of {name}")
        (folder / _REASON).write_text(f"{reason}\n")
        path.rename(folder / _CONTENT)
        _log.error("%s is set aside in %s: %s", path, folder, reason)
        return Entry(folder, kind, name, at, reason)

    def entries(self) -> list[Entry]:
        """What is here, oldest first; blocking."""
        if not self._folder.is_dir():
            return []
        found: list[Entry] = []
        for folder in sorted(self._folder.iterdir()):
            if match := _NAME.fullmatch(folder.name):
                since = dt.datetime.strptime(match[1], _STAMP).replace(tzinfo=dt.UTC)
                found.append(Entry(folder, match[2], match[3], since, _reason(folder)))
        return found


def _reason(folder: Path) -> str:
    try:
        return (folder / _REASON).read_text(errors="replace").strip()
    except OSError:
        return ""
