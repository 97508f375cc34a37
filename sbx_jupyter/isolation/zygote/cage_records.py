"""Which sandboxes may live, on disk: written by the zygote before any of a sandbox runs.

Standard library only, for the zygote.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


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

    def remove(self, sandbox_id: str) -> None:
        """Forget a sandbox."""
        (self._directory / sandbox_id).unlink(missing_ok=True)

    def remove_drafts(self) -> None:
        """Remove what a zygote that died had not finished writing; no other may be writing."""
        for draft in self._directory.glob(".*"):
            draft.unlink(missing_ok=True)

    def read_all(self) -> dict[str, dict[str, Any]]:
        """Every remembered sandbox and its state."""
        if not self._directory.is_dir():
            return {}
        found: dict[str, dict[str, Any]] = {}
        for path in self._directory.iterdir():
            if path.name.startswith("."):
                continue
            with contextlib.suppress(ValueError):  # cut off by a crash of the machine
                found[path.name] = json.loads(path.read_text())
        return found
