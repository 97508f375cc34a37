"""Captures a sandbox's files after each cell, to go back to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.errors import InvalidArgumentError

if TYPE_CHECKING:
    from sbx_jupyter.magics.known import Known

MAX_KEPT: Final = 50
"""Checkpoints of a notebook; the snapshot of the oldest is removed for a new one."""


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints of one notebook: label of the sandbox and snapshot by cell number."""

    is_on: bool = False
    kept: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    _replaced: list[str] = field(default_factory=list[str])
    """Snapshots to remove."""

    def take(self, known: Known, cell: int) -> None:
        """Capture a sandbox's files as they are after a cell."""
        snapshot = known.box.snapshot().snapshot_id
        known.last_snapshot = snapshot
        if cell in self.kept:
            self._replaced.append(self.kept[cell][1])
        self.kept[cell] = (known.label, snapshot)
        if len(self.kept) > MAX_KEPT:
            self._replaced.append(self.kept.pop(min(self.kept))[1])
        self._replaced = [old for old in self._replaced if not _is_removed(known, old)]


def _is_removed(known: Known, snapshot: str) -> bool:
    """Remove a snapshot, unless a sandbox that somebody went back to stands on it."""
    try:
        Portal.current().call(known.box.on_portal.platform.remove_snapshot(snapshot))
    except InvalidArgumentError:
        return False
    return True
