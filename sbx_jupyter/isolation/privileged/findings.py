"""Keeps what a helper found out at its start for the next helper of the same supervisor.

Trying what the machine allows, and searching it for what sandboxes may not see, takes seconds:
every caller of the engine would wait for that whenever a helper is replaced.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sbx_jupyter.agent.procfs import identity
from sbx_jupyter.isolation.root.stock_plan import KnownStock, StockPlan
from sbx_jupyter.isolation.tiers import IsolationReport  # noqa: TC001 - msgspec reads it


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The isolation of the sandboxes of one engine, and its stock layer."""

    report: IsolationReport
    """All that the machine allows, whatever tier is used."""
    layer: str
    plan: StockPlan

    @property
    def known_stock(self) -> KnownStock:
        """The stock layer that stands."""
        return KnownStock(Path(self.layer), self.plan)


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    supervisor: dict[str, str | int | None]
    """The identity of the process that started the helper: another engine searches for itself."""
    findings: Findings


def read(path: Path) -> Findings | None:
    """Read the findings of an earlier helper of the same supervisor; None if there was none."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return None
    return record.findings if record.supervisor == identity(os.getppid()) else None


def write(path: Path, findings: Findings) -> None:
    """Keep findings in a file of a directory that only root may enter. Raises ``OSError``."""
    record = _Record(supervisor=identity(os.getppid()), findings=findings)
    for left in path.parent.glob(f"{path.name}.*"):  # by a helper that was killed here
        left.unlink(missing_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_bytes(msgspec.json.encode(record))
    draft.rename(path)
