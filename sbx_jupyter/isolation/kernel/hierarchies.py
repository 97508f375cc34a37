"""Finds the hierarchies of control groups in which this process may make groups."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sbx_jupyter.isolation.kernel.cgroup_files import read_words

CONTROLLERS: Final = ("memory", "cpu", "pids")
TCP_LIMIT: Final = "memory.kmem.tcp.limit_in_bytes"
PREFIX: Final = "sbx-"
LEAF: Final = "-engine"
"""Child group for the engine's own process: a group that delegates controllers may hold none."""

V2: Final = "v2"
"""The name of the version 2 hierarchy beside those of the version 1 controllers."""


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The engine's own groups in which groups can be made."""

    v1: dict[str, Path]
    v2: Path | None
    v2_controllers: frozenset[str]

    def provider(self, controller: str) -> str:
        """The hierarchy that provides a controller: ``cgroup v1``, ``cgroup v2`` or ``none``."""
        if self.v2 is not None and controller in self.v2_controllers:
            return "cgroup v2"
        return "cgroup v1" if controller in self.v1 else "none"

    @property
    def tcp_provider(self) -> str:
        """The hierarchy that can limit TCP memory; version 1 has a counter of its own for it."""
        memory = self.provider("memory")
        if memory == "cgroup v1" and not (self.v1["memory"] / TCP_LIMIT).exists():
            return "none"
        return memory

    @property
    def freezer(self) -> str:
        """The hierarchy that can freeze all processes of a sandbox at once, or ``signals``."""
        if self.v2 is not None:
            return "cgroup v2"
        return "cgroup v1" if "freezer" in self.v1 else "signals"


def find_hierarchies() -> Hierarchies:
    """The hierarchies in which this process may make groups, found by making one."""
    own = _own_paths()
    v1 = {
        controller: path
        for controller in (*CONTROLLERS, "freezer", "cpuacct")
        if (path := own.get(controller)) is not None and _can_make(path)
    }
    v2 = own.get(V2)
    if v2 is not None and _is_leaf(v2):
        # An earlier start, in this process or its parent, moved the process to this leaf.
        v2 = v2.parent
    if v2 is None or not (v2 / "cgroup.procs").exists() or not _can_make(v2):
        return Hierarchies(v1, None, frozenset())
    return Hierarchies(v1, v2, _grantable(v2))


def _own_paths() -> dict[str, Path]:
    """Controller, or ``V2``, to the directory of this process's own group."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        _, _, _, root, point, *_ = fields.split(" ")
        if kind == "cgroup2":
            mounts.setdefault(V2, (root, point))
        elif kind == "cgroup":
            for option in options.split(" ")[-1].split(","):
                mounts.setdefault(option, (root, point))
    paths: dict[str, Path] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(",") if names else [V2]:
            if name in mounts:
                root, point = mounts[name]
                relative = os.path.relpath(path, root)
                paths[name] = Path(point) / ("." if relative.startswith("..") else relative)
    return paths


def _is_leaf(path: Path) -> bool:
    return path.name.startswith(PREFIX) and path.name.endswith(LEAF)


def _can_make(parent: Path) -> bool:
    probe = parent / f"{PREFIX}probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def _grantable(own: Path) -> frozenset[str]:
    """The controllers that children of ``own`` have, or would have once we moved to a leaf."""
    wanted = frozenset(CONTROLLERS)
    enabled = wanted & frozenset(read_words(own / "cgroup.subtree_control"))
    available = wanted & frozenset(read_words(own / "cgroup.controllers"))
    alone = set(read_words(own / "cgroup.procs")) <= {str(os.getpid())}
    if available and alone and os.access(own / "cgroup.subtree_control", os.W_OK):
        return available
    return enabled
