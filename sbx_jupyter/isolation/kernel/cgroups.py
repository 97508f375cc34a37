"""Control groups, version 1 and 2: limits, freezing, usage; each only where it can be had.

A sandbox gets one directory per hierarchy, below ``sbx-<engine>`` in the engine's own group. In
version 2 it is cloned into it; in version 1 it is moved, which waits for a grace period of the
kernel (about 13 ms), so that is done in a thread while the sandbox sets itself up.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sbx_jupyter.errors import UnavailableError, UnimplementedError
from sbx_jupyter.isolation.kernel.cgroup_files import (
    read_pairs,
    read_text,
    read_words,
    write_if_there,
    write_text,
)
from sbx_jupyter.isolation.kernel.hierarchies import (
    CONTROLLERS,
    LEAF,
    PREFIX,
    TCP_LIMIT,
    V2,
    Hierarchies,
    find_hierarchies,
)
from sbx_jupyter.isolation.kernel.usage import Usage

_PERIOD_US: Final = 100_000
DEFAULT_WEIGHT: Final = 100
"""The weight of a group in version 2; version 1 calls the same 1,024 shares."""

_MAX_WEIGHT: Final = 10_000
_SHARES_PER_WEIGHT: Final = 1024 / DEFAULT_WEIGHT
_TCP_SHARE: Final = 4
"""Version 1 counts the memory of TCP apart, and brakes from a quarter of the sandbox's on.

The kernel goes over this for the least buffers of each socket, so it is watched as well.
"""

_LEAST_TCP: Final = 16 << 20
_TCP_USAGE: Final = "memory.kmem.tcp.usage_in_bytes"
_FREEZE_TIMEOUT: Final = 10.0
_REMOVE_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The limits of a group; 0 means no limit."""

    memory_mb: int
    cpu_count: int
    processes: int


class ControlGroups:
    """The engine's groups: makes one for each sandbox."""

    def __init__(
        self, hierarchies: Hierarchies, name: str, cpu_weight: int = DEFAULT_WEIGHT
    ) -> None:
        """``name`` tells this engine's groups from those of others.

        ``cpu_weight`` is that of all sandboxes together against other groups.
        """
        self._hierarchies = hierarchies
        self._cpu_weight = cpu_weight
        self._name = f"{PREFIX}{name}"
        v1 = {c: p for c, p in hierarchies.v1.items() if c not in hierarchies.v2_controllers}
        if hierarchies.v2 is not None:
            v1 = {c: p for c, p in v1.items() if c in CONTROLLERS}  # freezes and counts itself
        self._parents = {c: path / self._name for c, path in v1.items()}
        if hierarchies.v2 is not None:
            self._parents[V2] = hierarchies.v2 / self._name

    def prepare(self) -> None:
        """Make the engine's directories and hand the controllers down. Raises ``OSError``."""
        v2, controllers = self._hierarchies.v2, self._hierarchies.v2_controllers
        grant = " ".join(f"+{controller}" for controller in sorted(controllers))
        if v2 is not None and not controllers <= set(read_words(v2 / "cgroup.subtree_control")):
            leaf = v2 / f"{self._name}{LEAF}"
            leaf.mkdir(exist_ok=True)
            write_text(leaf / "cgroup.procs", str(os.getpid()))
            write_text(v2 / "cgroup.subtree_control", grant)
        for path in self._parents.values():
            path.mkdir(exist_ok=True)
        if v2 is not None and controllers:
            write_text(self._parents[V2] / "cgroup.subtree_control", grant)
        for path in self._parents.values():
            _write_weight(path, self._cpu_weight)

    def limits(self, controller: str) -> bool:
        """Whether the groups hold sandboxes to a limit of that controller."""
        return self._hierarchies.provider(controller) != "none"

    def make(self, sandbox_id: str, limits: GroupLimits) -> SandboxGroup:
        """Make the directories of a sandbox and write its limits. Raises ``OSError``."""
        group = SandboxGroup({name: path / sandbox_id for name, path in self._parents.items()})
        group.make(limits)
        return group

    def sandboxes(self) -> set[str]:
        """The sandboxes that have a group."""
        found: set[str] = set()
        for path in self._parents.values():
            if path.is_dir():
                found |= {entry.name for entry in path.iterdir() if entry.is_dir()}
        return found

    def group_of(self, sandbox_id: str) -> SandboxGroup:
        """The group of a sandbox that was made before."""
        paths = {name: path / sandbox_id for name, path in self._parents.items()}
        return SandboxGroup({name: path for name, path in paths.items() if path.is_dir()})

    def remove_parents(self) -> None:
        """Remove the engine's directories if no sandbox is left in them."""
        for path in self._parents.values():
            _remove_directory(path)


def control_groups_of(data_dir: Path, cpu_weight: int) -> ControlGroups:
    """The control groups of the engine of a data directory, below this process's own."""
    name = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:8]
    return ControlGroups(find_hierarchies(), name, cpu_weight)


class SandboxGroup:
    """The control groups of one sandbox; may be none at all."""

    def __init__(self, directories: dict[str, Path]) -> None:
        self._directories = directories
        self._v2 = directories.get(V2)

    def to_state(self) -> dict[str, str]:
        """Plain JSON from which ``from_state`` makes the same again."""
        return {name: str(path) for name, path in self._directories.items()}

    @staticmethod
    def from_state(state: dict[str, Any]) -> SandboxGroup:
        """The group that ``to_state`` described."""
        return SandboxGroup({name: Path(path) for name, path in state.items()})

    def parent(self) -> SandboxGroup:
        """The group above, which counts what all sandboxes of the engine use together."""
        return SandboxGroup({name: path.parent for name, path in self._directories.items()})

    def make(self, limits: GroupLimits) -> None:
        """Make the directories and write the limits. Raises ``OSError``."""
        for path in self._directories.values():
            path.mkdir(exist_ok=True, parents=True)
        memory, cpu, pids = (self._of(controller) for controller in CONTROLLERS)
        if memory is not None and limits.memory_mb:
            size = str(limits.memory_mb << 20)
            if memory == self._v2:
                write_if_there(memory / "memory.max", size)
                write_if_there(memory / "memory.swap.max", "0")
            else:
                write_text(memory / "memory.limit_in_bytes", size)
                write_if_there(memory / "memory.memsw.limit_in_bytes", size)
                tcp = max((limits.memory_mb << 20) // _TCP_SHARE, _LEAST_TCP)
                write_if_there(memory / TCP_LIMIT, str(tcp))
        if cpu is not None:
            _write_weight(cpu, DEFAULT_WEIGHT * max(limits.cpu_count, 1))
        if cpu is not None and limits.cpu_count:
            quota = limits.cpu_count * _PERIOD_US
            if cpu == self._v2:
                write_if_there(cpu / "cpu.max", f"{quota} {_PERIOD_US}")
            else:
                write_if_there(cpu / "cpu.cfs_quota_us", str(quota))
        if pids is not None and limits.processes:
            write_if_there(pids / "pids.max", str(limits.processes))

    def open_for_clone(self) -> int | None:
        """A descriptor of the version 2 group to clone into; the caller closes it."""
        if self._v2 is None:
            return None
        return os.open(self._v2, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def attach(self, pid: int) -> None:
        """Move a process into the version 1 groups; blocks some milliseconds.

        Raises ``OSError``.
        """
        for name, path in self._directories.items():
            if name != V2:
                write_text(path / "cgroup.procs", str(pid))

    async def freeze(self) -> None:
        """Stop every process. Raises ``UnimplementedError`` without a freezer."""
        await self._set_frozen(frozen=True)

    async def thaw(self) -> None:
        """Thaw every process. Raises ``UnimplementedError`` without a freezer."""
        await self._set_frozen(frozen=False)

    def is_frozen(self) -> bool:
        """Whether its processes are frozen; false where there is no freezer."""
        if self._v2 is not None:
            return read_pairs(self._v2_events()).get("frozen") == 1
        freezer = self._directories.get("freezer")
        return freezer is not None and read_text(freezer / "freezer.state").strip() == "FROZEN"

    async def release_frozen(self) -> None:
        """Thaw a frozen group so that signals arrive: version 1 keeps even SIGKILL waiting."""
        if self._v2 is None and "freezer" in self._directories:
            await self.thaw()

    async def remove(self) -> None:
        """Remove the directories, which the last process may just be leaving."""
        deadline = time.monotonic() + _REMOVE_TIMEOUT
        pause = 0.001
        left = set(self._directories.values())
        while left := await asyncio.to_thread(_remove_directories, left):
            if time.monotonic() > deadline:
                raise UnavailableError(f"a control group stays busy: {self.to_state()}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)

    def kill_all(self) -> None:
        """Kill all processes in the group, for sandboxes without a row."""
        for name, path in self._directories.items():
            if name == V2 and (path / "cgroup.kill").exists():
                write_text(path / "cgroup.kill", "1")
                continue
            for pid in read_words(path / "cgroup.procs"):
                try:
                    os.kill(int(pid), 9)
                except ProcessLookupError:
                    continue

    def usage(self) -> Usage | None:
        """CPU time and memory now; None where the groups do not count them."""
        memory, cpu_ns = self._of("memory"), self.work_ns()
        if memory is None or cpu_ns is None:
            return None
        if memory == self._v2:
            used = int(read_text(memory / "memory.current"))
            stat = read_pairs(memory / "memory.stat")
            cache = stat.get("file", 0) - stat.get("shmem", 0)
        else:
            used = int(read_text(memory / "memory.usage_in_bytes"))
            stat = read_pairs(memory / "memory.stat")
            cache = stat.get("total_cache", 0) - stat.get("total_shmem", 0)
        return Usage(cpu_ns, max(used - cache, 0), cache, self._processes())

    @property
    def holds_memory(self) -> bool:
        """Whether the memory of the group is limited."""
        return self._of("memory") is not None

    def tcp_bytes(self) -> int | None:
        """Memory of TCP that counts apart from the other memory; ``None`` where it does not."""
        memory = self._of("memory")
        if memory is None or memory == self._v2 or not (memory / _TCP_USAGE).exists():
            return None
        return int(read_text(memory / _TCP_USAGE))

    def oom_kills(self) -> int:
        """How often a process was killed for the memory limit."""
        memory = self._of("memory")
        if memory is None:
            return 0
        file = "memory.events" if memory == self._v2 else "memory.oom_control"
        return read_pairs(memory / file).get("oom_kill", 0)

    def _of(self, controller: str) -> Path | None:
        return self._directories.get(controller, self._v2_with(controller))

    def _v2_with(self, controller: str) -> Path | None:
        files = {"memory": "memory.max", "cpu": "cpu.max", "pids": "pids.max"}
        if self._v2 is not None and (self._v2 / files[controller]).exists():
            return self._v2
        return None

    def work_ns(self) -> int | None:
        """Processor time so far; None where the groups do not count it."""
        if self._v2 is not None:
            return read_pairs(self._v2 / "cpu.stat").get("usage_usec", 0) * 1000
        accounting = self._directories.get("cpuacct")
        return None if accounting is None else int(read_text(accounting / "cpuacct.usage"))

    def _processes(self) -> int:
        for path in (self._v2, *self._directories.values()):
            if path is not None:
                return len(read_words(path / "cgroup.procs"))
        return 0

    async def _set_frozen(self, *, frozen: bool) -> None:
        if self._v2 is not None:
            write_text(self._v2 / "cgroup.freeze", "1" if frozen else "0")
            await _until(lambda: read_pairs(self._v2_events()).get("frozen") == int(frozen))
        elif (freezer := self._directories.get("freezer")) is not None:
            state = "FROZEN" if frozen else "THAWED"
            await asyncio.to_thread(write_text, freezer / "freezer.state", state)
            await _until(lambda: read_text(freezer / "freezer.state").strip() == state)
        else:
            raise UnimplementedError("this machine has no freezer for sandboxes")

    def _v2_events(self) -> Path:
        assert self._v2 is not None
        return self._v2 / "cgroup.events"


async def _until(done: Any) -> None:
    deadline = time.monotonic() + _FREEZE_TIMEOUT
    pause = 0.0
    while not done():
        if time.monotonic() > deadline:
            raise UnavailableError("the sandbox could not be frozen or thawed in time")
        await asyncio.sleep(pause)
        pause = min(pause + 0.0005, 0.01)


def _remove_directories(paths: set[Path]) -> set[Path]:
    """Remove empty groups; gives those that are left. Waits for others who change groups."""
    return {path for path in paths if not _remove_directory(path)}


def _remove_directory(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _write_weight(group: Path, weight: int) -> None:
    """Share out processor time among this group and those beside it, where it has the controller.

    ``weight`` is in the unit of version 2.
    """
    weight = min(max(weight, 1), _MAX_WEIGHT)
    write_if_there(group / "cpu.weight", str(weight))
    write_if_there(group / "cpu.shares", str(max(round(weight * _SHARES_PER_WEIGHT), 2)))
