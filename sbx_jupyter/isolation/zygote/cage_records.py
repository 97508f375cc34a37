"""Records on disk of sandboxes that may live, written by the zygote before any of them runs.

Standard library only, for the zygote.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Kind = type | tuple[type, ...]

IDENTITY: Final[Mapping[str, Kind]] = {"pid": int, "start_time": (int, type(None)), "boot_id": str}
_FIELDS: Final[Mapping[str, Kind]] = {**IDENTITY, "writable": str, "group": dict, "kept": bool}
_DRAFT: Final = re.compile(r"\.i[a-z0-9]{20}")
_MOST_BYTES: Final = 1 << 20
_LAST_PID: Final = 1 << 22


class CageRecords:
    """One small file per sandbox that may live, for engines that forgot it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, sandbox_id: str, state: dict[str, Any]) -> None:
        """Remember a sandbox. Raises ``OSError``."""
        self._directory.mkdir(exist_ok=True)
        draft = self._directory / f".{sandbox_id}"
        draft.write_text(json.dumps(state))
        draft.rename(self._directory / sandbox_id)

    def read(self, sandbox_id: str) -> dict[str, Any] | None:
        """The state of one sandbox; ``None`` when nothing, or no state, is remembered."""
        try:
            return read_record(self._directory / sandbox_id, _FIELDS)
        except (OSError, ValueError):
            return None

    def remove(self, sandbox_id: str) -> None:
        """Forget a sandbox."""
        (self._directory / sandbox_id).unlink(missing_ok=True)

    def remove_drafts(self) -> None:
        """Remove unfinished records of a zygote that died; no other may be writing."""
        for draft in self._directory.glob(".*"):
            is_file = draft.is_file() and not draft.is_symlink()
            if is_file or (_DRAFT.fullmatch(draft.name) and not draft.is_dir()):
                draft.unlink(missing_ok=True)

    def read_all(self, tell: Callable[[str], object]) -> dict[str, dict[str, Any]]:
        """Every remembered sandbox and its state; ``tell`` gets a line for what is no record."""
        if not self._directory.is_dir():
            return {}
        found: dict[str, dict[str, Any]] = {}
        for path in self._directory.iterdir():
            if path.name.startswith("."):
                continue
            try:
                found[path.name] = read_record(path, _FIELDS)
            except (OSError, ValueError) as error:  # perhaps cut off by a crash of the machine
                tell(f"{path} is no record of a sandbox and is left as it is: {error}")
        return found


def read_record(path: Path, fields: Mapping[str, Kind]) -> dict[str, Any]:
    """A JSON object from a regular file that has these fields.

    Raises ``OSError``, and ``ValueError`` for anything else.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a regular file")
        raw = file.read(_MOST_BYTES)
    try:
        found: Any = json.loads(raw)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("not an object with the expected fields")
    record = cast("dict[str, Any]", found)
    if not all(isinstance(record.get(name), kind) for name, kind in fields.items()):
        raise ValueError("not an object with the expected fields")
    if not 0 < record["pid"] <= _LAST_PID:
        raise ValueError("not the number of a process")
    return record
