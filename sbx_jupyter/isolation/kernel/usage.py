"""The record of a sandbox's resource use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """One reading of a control group."""

    cpu_ns: int
    memory_bytes: int
    cache_bytes: int
    processes: int
