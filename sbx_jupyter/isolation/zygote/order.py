"""The description of one sandbox to make that the engine sends to the zygote.

Standard library only, for the zygote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    """One sandbox to make, as the engine asks for it; paths are relative to ``HostMounts.data``."""

    sandbox_id: str
    layers: tuple[str, ...]
    host_base: bool
    writable: str
    volumes: tuple[tuple[str, str], ...]
    shown: tuple[str, ...]
    """The chosen directories of the host that it sees, read-only; absolute."""

    processes: int
    memory_mb: int
    open_files: int
    disk_mb: int
    limit_memory: bool
    """Whether to use a resource limit, where there is no control group."""
    limit_processes: bool
    processors: tuple[int, ...]
    """The processors that it is bound to without a control group; empty with one."""

    real_users: bool
    machine_root: bool
    """The sandbox's root is the machine's root, because the machine has no other ids to give."""

    confine: bool
    """Whether the tier without namespaces still has a Landlock domain."""

    landlock_abi: int
    """The version of Landlock that confines it; 0 without."""

    loopback: bool
    """Whether it gets a loopback interface from its keeper; only with ``confine``."""

    tap: bool
    """Whether it gets an interface for the full network, whose other end is connected later."""

    without: tuple[str, ...]
    """Parts of the fence that a benchmark leaves out."""

    @staticmethod
    def from_json(raw: dict[str, Any]) -> Order:
        """Read the order in a request of the engine. Raises ``KeyError``, ``TypeError``."""
        return Order(
            sandbox_id=raw["sandbox_id"],
            layers=tuple(raw["layers"]),
            host_base=raw["host_base"],
            writable=raw["writable"],
            volumes=tuple((str(source), str(target)) for source, target in raw["volumes"]),
            shown=tuple(raw["shown"]),
            processes=raw["processes"],
            memory_mb=raw["memory_mb"],
            open_files=raw["open_files"],
            disk_mb=raw["disk_mb"],
            limit_memory=raw["limit_memory"],
            limit_processes=raw["limit_processes"],
            processors=tuple(raw["processors"]),
            real_users=raw["real_users"],
            machine_root=raw["machine_root"],
            confine=raw["confine"],
            landlock_abi=raw["landlock_abi"],
            loopback=raw["loopback"],
            tap=raw["tap"],
            without=tuple(raw["without"]),
        )
