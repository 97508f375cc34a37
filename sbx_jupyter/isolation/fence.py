"""The engine's side of the fence: one zygote, and a cage around each sandbox."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.agent.procfs import open_identified, start_time_of
from sbx_jupyter.errors import AbortedError, IsolationError, SbxError, UnavailableError
from sbx_jupyter.isolation.full_network.connections import TapConnections
from sbx_jupyter.isolation.ids.blocks import CONTAINER_IDS
from sbx_jupyter.isolation.kernel import users
from sbx_jupyter.isolation.kernel.cgroups import (
    DEFAULT_WEIGHT,
    GroupLimits,
    SandboxGroup,
    control_groups_of,
)
from sbx_jupyter.isolation.kernel.processors import AFFINITY, ProcessorAllocator
from sbx_jupyter.isolation.resource_use.open_files import OpenFiles
from sbx_jupyter.isolation.root import former_stock, stock_plan
from sbx_jupyter.isolation.stored.merged_tree import Layer
from sbx_jupyter.isolation.stored.subordinate_trees import SubordinateTrees
from sbx_jupyter.isolation.stored.trees import StoredTrees
from sbx_jupyter.isolation.zygote.cage_records import CageRecords
from sbx_jupyter.isolation.zygote.client import (
    ZygoteProcess,
    check_outcome,
    end_former_zygote,
    start_zygote,
)

from .cage import Cage
from .tiers import Tier
from .tree_operations import TreeOperations, relative_to

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from sbx_jupyter.isolation.ids.blocks import IdRange

    from .channel import Reply
    from .fence_spec import FenceSpec
    from .tiers import IsolationReport

logger = logging.getLogger(__name__)

_AGENT: Final = "sbx_jupyter.agent.main"
_SETUP_TIMEOUT: Final = 30.0
_ATTEMPTS: Final = 8
"""A sandbox is given up when it was killed this often."""


class Fence:
    """Makes sandboxes; one per engine."""

    def __init__(
        self,
        data_dir: Path,
        report: IsolationReport,
        tier: str,
        *,
        agent: str = _AGENT,
        tap: bool = False,
        cpu_weight: int = DEFAULT_WEIGHT,
        host_ids: IdRange = CONTAINER_IDS,
        known_stock: stock_plan.KnownStock | None = None,
        _without: frozenset[str] = frozenset(),
    ) -> None:
        """``agent`` is the module whose ``run`` becomes the sandboxes' first process.

        ``tap`` gives each an interface for the whole network, with nothing at its far end yet.
        ``cpu_weight`` is that of all sandboxes together against other control groups.
        ``host_ids`` are those that sandboxes get where each has ids of its own.
        ``known_stock`` was built for this engine before: the machine is not searched again for what
        sandboxes may not see, which takes most of a start.
        ``_without`` leaves out parts of the fence, to measure what they cost, and for nothing else.
        """
        self._without = _without
        self._data_dir = data_dir.resolve()
        self._report = report
        self._tier = tier
        self._agent = agent
        self._tap = tap
        self._host_ids = host_ids
        self._zygote: ZygoteProcess | None = None
        self._starting = asyncio.Lock()
        self._is_stopped = False
        self._cages = CageRecords(self._data_dir / "cages")
        self._processor_allocator = ProcessorAllocator()
        self._living: weakref.WeakSet[Cage] = weakref.WeakSet()
        self._groups = control_groups_of(self._data_dir, cpu_weight)
        self.known_stock = known_stock
        """The layer of the stock root file system; it stands once the fence is started."""
        self._chosen: frozenset[str] = frozenset()
        """What sandboxes were shown besides; a zygote must know it when it starts."""
        self.tree_operations = TreeOperations(self._data_dir, self._live_zygote)
        self.stored = StoredTrees(self._data_dir)
        self.connections = TapConnections(self._data_dir)

    async def start(self) -> None:
        """Start the zygote, building the stock layer at first. Raises ``IsolationError``."""
        self._is_stopped = False
        self._data_dir.mkdir(parents=True, exist_ok=True)
        if self._data_dir.stat().st_mode & 0o007:
            self._data_dir.chmod(0o700)
        if self._report.users == users.SUBORDINATE:
            self.stored = SubordinateTrees(self._data_dir, self.tree_operations)
        await asyncio.to_thread(self._prepare_groups)
        await asyncio.to_thread(end_former_zygote, self._data_dir)
        self._cages.remove_drafts()
        await self._live_zygote()

    def _prepare_groups(self) -> None:
        try:
            self._groups.prepare()
        except OSError as error:
            raise IsolationError(f"no control groups can be made: {error}") from error

    async def stop(self) -> None:
        """End the zygote; the sandboxes keep running.

        Work that the zygote does is not done again: it fails with ``UnavailableError``.
        """
        self._is_stopped = True
        async with self._starting:  # what is being started ends as well
            if self._zygote is not None:
                await self._zygote.stop()
                self._zygote = None
        self._groups.remove_parents()

    @property
    def zygote_pid(self) -> int | None:
        """Process id of the zygote; None before ``start`` and after ``stop``."""
        return None if self._zygote is None else self._zygote.pid

    @property
    def stock(self) -> Path | None:
        """The layer of the stock root file system, once started."""
        return None if self.known_stock is None else self.known_stock.layer

    async def create(self, spec: FenceSpec, listener: socket.socket) -> Cage:
        """Make a sandbox whose agent accepts on ``listener``; a dead zygote is replaced.

        Raises ``IsolationError`` when it cannot be set up, ``InvalidArgumentError`` when that is
        for its layers or volumes, ``UnavailableError`` when no zygote answers.
        """
        if self._tier == Tier.NAMESPACES:
            await self._choose(spec.shown)
        name, limit = self._relative(spec.writable), spec.limits.disk_mb << 20
        await asyncio.to_thread(self.stored.make_writable, name, limit)
        for left in reversed(range(_ATTEMPTS)):
            try:
                return await self._create(spec, listener)
            except (AbortedError, UnavailableError) as error:
                if not left or self._is_stopped:
                    raise
                logger.warning("a sandbox is made again: %s", error.message)
        raise AssertionError("unreachable")

    async def _choose(self, shown: Sequence[str]) -> None:
        """Let the zygote know directories that sandboxes see besides; a new one must start."""
        async with self._starting:
            if self._chosen.issuperset(shown):
                return
            self._chosen |= set(shown)
            if self._zygote is not None:
                # What it does for others meanwhile is asked of the next one again.
                await self._zygote.stop()

    async def _create(self, spec: FenceSpec, listener: socket.socket) -> Cage:
        zygote = await self._live_zygote()
        group = await self._make_group(spec)
        cgroup = group.open_for_clone()
        try:
            reply = await zygote.call(
                "create",
                fds=[listener.fileno()] if cgroup is None else [listener.fileno(), cgroup],
                order=self._order(spec),
                record=self._record(spec, group),
                timeout=_SETUP_TIMEOUT,
            )
        except SbxError:
            await self._end_unheard(spec.sandbox_id, group)
            raise
        finally:
            if cgroup is not None:
                os.close(cgroup)
        cage = self._cage(spec, reply, group)
        await self._finish(cage, reply.fds[1])
        return cage

    async def _end_unheard(self, sandbox_id: str, group: SandboxGroup) -> None:
        """End the sandbox of a request without an answer: the zygote may have started it."""
        state = await asyncio.to_thread(self._cages.read, sandbox_id)
        cage = None if state is None else self.adopt(sandbox_id, state)
        if cage is not None:
            await cage.kill()
            cage.close()
            return
        await asyncio.to_thread(group.kill_all)
        await group.remove()
        await asyncio.to_thread(self._cages.remove, sandbox_id)

    async def end_unheard(self, sandbox_id: str) -> None:
        """End a sandbox that may have been made, and remove its control groups.

        Raises ``SbxError``, ``OSError``.
        """
        await self._end_unheard(sandbox_id, self._groups.group_of(sandbox_id))

    async def _make_group(self, spec: FenceSpec) -> SandboxGroup:
        if "limits" in self._without:
            return SandboxGroup({})
        limits = GroupLimits(spec.limits.memory_mb, spec.limits.cpu_count, spec.limits.processes)
        try:
            # Whoever makes a group waits for everybody who moves a process between groups.
            return await asyncio.to_thread(self._groups.make, spec.sandbox_id, limits)
        except OSError as error:
            await self._groups.group_of(spec.sandbox_id).remove()
            raise IsolationError(f"the limits could not be set: {error}") from error

    def _cage(self, spec: FenceSpec, reply: Reply, group: SandboxGroup) -> Cage:
        pid = reply.body["pid"]
        cage = Cage(
            spec.sandbox_id,
            pid=pid,
            pidfd=reply.fds[0],
            start_time=start_time_of(pid) or 0,
            writable=spec.writable,
            group=group,
            records=self._cages,
            kept=self._tier != Tier.NAMESPACES,
        )
        self._living.add(cage)
        return cage

    async def _finish(self, cage: Cage, outcome: int) -> None:
        """Wait until the sandbox is set up and in its groups; no code of it has run before."""
        try:
            attached, failed = await asyncio.gather(
                asyncio.to_thread(cage.attach), check_outcome(outcome), return_exceptions=True
            )
            if failed is not None:
                raise failed
            if isinstance(attached, BaseException):
                raise IsolationError(f"the limits could not be set: {attached}") from attached
        except BaseException:
            await asyncio.shield(cage.kill())
            cage.close()
            raise

    def _record(self, spec: FenceSpec, group: SandboxGroup) -> dict[str, Any]:
        """The state of a sandbox before it has a process, to which the zygote adds the process."""
        return {
            "writable": str(spec.writable),
            "group": group.to_state(),
            "kept": self._tier != Tier.NAMESPACES,
            "stock": "" if self.stock is None else self.stock.name,
        }

    def _order(self, spec: FenceSpec) -> dict[str, Any]:
        limits = spec.limits
        return {
            "sandbox_id": spec.sandbox_id,
            "layers": [self._relative(layer) for layer in spec.layers],
            "host_base": spec.base == "host",
            "writable": self._relative(spec.writable),
            "shown": list(spec.shown),
            "volumes": [[self._relative(source), target] for source, target in spec.volumes],
            "processes": limits.processes,
            "memory_mb": limits.memory_mb,
            "open_files": limits.open_files,
            "disk_mb": limits.disk_mb,
            "limit_memory": not self._groups.limits("memory"),
            "limit_processes": not self._groups.limits("pids"),
            "processors": self._processors(limits.cpu_count),
            "without": sorted(self._without),
            "confine": self._tier == Tier.LANDLOCK,
            "landlock_abi": self._report.landlock_abi,
            "loopback": self._tier == Tier.LANDLOCK and self._report.loopback,
            "tap": self._tap,
            "real_users": self._report.users != users.VIRTUAL,
            "machine_root": self._report.has_machine_root,
        }

    def _processors(self, count: int) -> list[int]:
        """The processors to bind a sandbox to; none where a control group does better."""
        if self._report.limits.get("cpu") != AFFINITY or not count or "limits" in self._without:
            return []
        return self._processor_allocator.choose(
            count, [cage.pid for cage in self._living if cage.pidfd >= 0]
        )

    def _relative(self, path: Path) -> str:
        return relative_to(self._data_dir, path)

    async def _live_zygote(self) -> ZygoteProcess:
        async with self._starting:
            if self._is_stopped:
                raise UnavailableError("the engine is stopping")
            if self._zygote is not None and self._zygote.alive:
                return self._zygote
            if self._zygote is not None:
                await self._zygote.stop()
                self._cages.remove_drafts()
            kind = self._report.users if self._tier == Tier.NAMESPACES else users.HOST
            plan = stock_plan.plan_stock(
                real_users=kind in (users.ROOT_MAPPED, users.SUBORDINATE),
                host_root_mapped=kind == users.ROOT_MAPPED,
                chosen=sorted(self._chosen),
            )
            known = self.known_stock
            self._zygote, layer = await start_zygote(
                self._data_dir,
                kind,
                plan,
                self._report.id_base,
                agent=self._agent,
                # Of a chosen directory that was away meanwhile, it does not know what to hide.
                stock=known.layer
                if known is not None and known.plan == plan and not self._chosen
                else None,
                own_ids=self._host_ids if self._report.ids == users.OWN else None,
                landlock_abi=self._report.landlock_abi,
            )
            self.known_stock = stock_plan.KnownStock(layer, plan)
            seen = [Path(tree.path) for tree in plan.trees if not tree.chosen]
            layers = (Layer(path, str(path).strip("/")) for path in seen)
            self.stored.stock = (Layer(layer), *layers)
            return self._zygote

    async def recover(self, sandbox_id: str, state: dict[str, Any]) -> Cage | None:
        """Like ``adopt``, for callers that may have to ask another process."""
        return self.adopt(sandbox_id, state)

    def adopt(self, sandbox_id: str, state: dict[str, Any]) -> Cage | None:
        """The cage of a sandbox that an earlier engine made; None when it is gone."""
        pidfd = open_identified(state)
        if pidfd is None:
            return None
        cage = Cage(
            sandbox_id,
            pid=state["pid"],
            pidfd=pidfd,
            start_time=state["start_time"],
            writable=Path(state["writable"]),
            group=SandboxGroup.from_state(state["group"]),
            records=self._cages,
            kept=state["kept"],
        )
        self._living.add(cage)
        return cage

    def recorded(self, sandbox_id: str) -> dict[str, Any] | None:
        """The state for ``adopt`` of a sandbox that may live, as the zygote recorded it."""
        return self._cages.read(sandbox_id)

    async def open_files(self, cage: Cage) -> OpenFiles:
        """What a sandbox's processes hold, whatever ids they have. Raises ``SbxError``."""
        zygote = await self._live_zygote()
        reply = await zygote.call("open_files", pid=cage.pid, kept=cage.kept, timeout=30)
        return OpenFiles.from_json(reply.body)

    async def collect(self, known: set[str]) -> None:
        """Kill the sandboxes that are not in ``known``, and remove stock layers of none."""
        for sandbox_id, state in self._cages.read_all(logger.warning).items():
            if sandbox_id in known:
                continue
            cage = self.adopt(sandbox_id, state)
            if cage is None:
                self._cages.remove(sandbox_id)
            else:
                await cage.kill()
                cage.close()
        for sandbox_id in self._groups.sandboxes() - known:
            group = self._groups.group_of(sandbox_id)
            await asyncio.to_thread(group.kill_all)
            await group.release_frozen()
            await group.remove()
        await former_stock.remove_former(
            self._data_dir / "stock", lambda: self.stock, self._cages, self._starting,
            self.tree_operations,
        )  # fmt: skip
