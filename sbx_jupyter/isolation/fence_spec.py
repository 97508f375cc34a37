"""The specification of one sandbox: its layers, its writable directory and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """The resource limits of one sandbox; 0 means no limit."""

    memory_mb: int
    cpu_count: int
    processes: int
    disk_mb: int
    open_files: int


@dataclass(frozen=True, slots=True)
class FenceSpec:
    """Describes a sandbox to be made."""

    sandbox_id: str
    layers: tuple[Path, ...]
    """Read-only layers, topmost first, above the stock base."""
    base: str
    """``"host"``: the stock root file system; ``""``: the layers hold a complete root."""
    writable: Path
    """Directory with ``upper`` and ``work``, in the data directory; made where it is missing."""
    limits: Limits
    network: bool = True
    volumes: tuple[tuple[Path, str], ...] = ()
    shown: tuple[str, ...] = ()
    """Directories of the host that it sees read-only besides, in the tier with namespaces."""
