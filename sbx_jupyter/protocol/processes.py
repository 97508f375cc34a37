"""Additions to the platform API: the processes and ports of a sandbox."""

from __future__ import annotations

import msgspec


class SandboxProcess(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """One process of a sandbox as the kernel shows it; its names are what the program says."""

    pid: int
    """Its id inside the sandbox."""

    parent: int | None = None
    """The id of its parent inside; ``None`` for one outside, and for that of the agent."""

    name: str
    args: list[str] = []
    """Its command line; cut when it is long."""

    state: str
    """One letter of proc(5), such as ``R``, ``S``, ``T`` or ``Z``."""

    cpu_seconds: float
    """Processor time since it started."""

    cpu_pct: float = 0.0
    """Percent of one processor in the last fifth of a second; several threads may exceed 100."""

    memory_bytes: int
    threads: int
    age_seconds: float


class ListeningPort(msgspec.Struct, kw_only=True, frozen=True):
    """A TCP port on which a program of a sandbox listens."""

    port: int
    address: str
    """``127.0.0.1``, ``0.0.0.0``, ``::`` or another address inside."""

    program: str | None = None
    """The name of the program; ``None`` where it cannot be seen."""

    pid: int | None = None
    """Its id inside the sandbox."""
