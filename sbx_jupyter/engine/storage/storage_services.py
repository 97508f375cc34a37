"""The storage services of one engine, for the handlers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sbx_jupyter.engine.storage.disk_report import DiskReporter
    from sbx_jupyter.engine.storage.prune import Pruner
    from sbx_jupyter.engine.storage.sandbox_diff import Diffs


@dataclass(frozen=True, slots=True)
class Storage:
    """Disk use, its reduction, and what sandboxes changed."""

    disk: DiskReporter
    prune: Pruner
    diffs: Diffs
