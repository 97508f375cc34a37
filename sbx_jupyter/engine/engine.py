"""The engine: starts and stops its components, and gives access to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbx_jupyter.engine.assembly import Components, Kept, assemble
from sbx_jupyter.engine.attachments import Attachments, network_of
from sbx_jupyter.engine.context import EngineConfig, Hooks
from sbx_jupyter.engine.sandboxes.listing import SandboxFilter
from sbx_jupyter.engine.sandboxes.recovery import Recovery
from sbx_jupyter.engine.sandboxes.wake import WakeCredential
from sbx_jupyter.engine.shutdown import shut_down
from sbx_jupyter.engine.state.datadir import DataDir, is_no_space
from sbx_jupyter.engine.state.logs import LogFilter
from sbx_jupyter.engine.state.manifests import Manifests
from sbx_jupyter.engine.state.quarantine import Quarantine
from sbx_jupyter.engine.state.reconciliation import reconcile
from sbx_jupyter.engine.state.reserve import Reserve
from sbx_jupyter.engine.state.store import Batch, Store
from sbx_jupyter.engine.storage.snapshots import SnapshotFilter
from sbx_jupyter.engine.templates.template_services import Templates
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.engine.watch.meters import Meters
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.isolation import limits
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.privileged.connection import HelperConnection
from sbx_jupyter.isolation.privileged.remote_fence import RemoteFence
from sbx_jupyter.isolation.tiers import Tier, check_full_network, choose, detect, of_tier

if TYPE_CHECKING:
    from sbx_jupyter.engine.sandboxes.observations import Observations
    from sbx_jupyter.engine.sandboxes.service import Sandboxes
    from sbx_jupyter.engine.storage.forks import Forks
    from sbx_jupyter.engine.storage.snapshots import Snapshots
    from sbx_jupyter.engine.storage.storage_services import Storage
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence
    from sbx_jupyter.isolation.privileged.supervisor import Supervisor
    from sbx_jupyter.isolation.tiers import IsolationReport

__all__ = [
    "Engine",
    "EngineConfig",
    "LogFilter",
    "SandboxFilter",
    "SnapshotFilter",
    "WakeCredential",
]


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Helped:
    """Passed to an engine that gave up its privileges (``isolation/privileged``)."""

    data_dir: DataDir
    """Open and locked already."""
    supervisor: Supervisor
    """The supervisor of the helper."""


class Engine:
    """Starts and stops the components that run sandboxes on this machine, and gives access to them.

    Its properties raise ``UnavailableError`` while it is not running. ``report``, ``tier`` and
    ``network`` say how sandboxes are isolated; they are set by ``start``.
    """

    report: IsolationReport
    tier: str
    network: str

    def __init__(self, config: EngineConfig, helped: Helped | None = None) -> None:
        """``helped`` is there for an engine without the privileges that its fence needs."""
        self.config = config
        self._helped = helped
        self.hooks = Hooks()
        self.meters = Meters()
        self._components: Components | None = None
        self._exit = contextlib.AsyncExitStack()
        self._remote: RemoteFence | None = None

    @property
    def served_by(self) -> str:
        """Who serves clients: ``separate``, a user without privileges that root became; ``root``;
        or ``user``, the ordinary one who started the engine."""
        if self._helped is not None:
            return "separate"
        return "root" if os.geteuid() == 0 else "user"

    async def start(self) -> None:
        """Lock the data directory, recover the stored sandboxes, and start all components.

        Raises ``FailedPreconditionError`` when another engine uses the directory or a newer version
        wrote it, ``DataLossError`` when its store is damaged, ``IsolationError`` when this machine
        cannot give the configured isolation.
        """
        reserve = Reserve(self.config.data_dir)
        try:
            await self._start()
        except BaseException as error:
            await self._exit.aclose()
            if not is_no_space(error) or not await asyncio.to_thread(reserve.release):
                await self._leave_helper()
                raise
            _log.warning("the disk is full; starting on the space that was kept for that")
            if self._remote is not None:
                await self._remote.restart()
            await self._start_or_close()
            return
        await asyncio.to_thread(reserve.fill)

    async def _start_or_close(self) -> None:
        try:
            await self._start()
        except BaseException:
            await self._exit.aclose()
            await self._leave_helper()
            raise

    async def _leave_helper(self) -> None:
        """End the helper, if there is one, and release the directory that was opened for it."""
        remote, self._remote = self._remote, None
        if remote is not None:
            await remote.stop()
        if self._helped is not None:
            self._helped.data_dir.close()

    async def _start(self) -> None:
        data_dir = self._open_data_dir()
        remote = self._remote
        if remote is None and self._helped is not None:
            connection = HelperConnection(self._helped.supervisor)
            remote = self._remote = RemoteFence(data_dir.path, connection)
        reached("recovery.locked")
        manifests = await asyncio.to_thread(Manifests.open, data_dir)
        store = Store(
            data_dir.database,
            manifests=manifests,
            on_commit=self.meters.commit_seconds.observe,
        )
        await store.open(beside=await asyncio.to_thread(data_dir.describe_contents))
        self._exit.push_async_callback(store.close)
        quarantine = Quarantine(data_dir.path, None if remote is None else remote.stored)
        await asyncio.to_thread(reconcile, store, manifests, data_dir, quarantine)
        if remote is None:
            fence = await self._open_fence(data_dir)
            self._exit.push_async_callback(fence.stop)
        else:
            fence = remote
            self.report, self.tier = await remote.open()
        self.meters.tell_limits(self.report.limits, limits.words(self.report.limits))
        self.network = network_of(self.tier, self.config.network, loopback=self.report.loopback)
        kept = Kept(data_dir, store, manifests, quarantine)
        components = assemble(
            self.config,
            self.hooks,
            self.meters,
            kept,
            fence,
            self.tier,
            shares_blocks=self.report.reflink,
        )
        await self._open(components)
        self._components = components

    def _open_data_dir(self) -> DataDir:
        if self._helped is not None:
            return self._helped.data_dir
        data_dir = DataDir(self.config.data_dir)
        data_dir.open()
        self._exit.callback(data_dir.close)
        return data_dir

    async def _open_fence(self, data_dir: DataDir) -> Fence:
        report = await asyncio.to_thread(detect, data_dir.path, self.config.host_ids)
        self.tier = choose(report, self.config.isolation)
        self.report = of_tier(report, self.tier)
        is_full = self.config.network == "full"
        if is_full:
            check_full_network(self.report, self.tier)
        fence = Fence(
            data_dir.path,
            self.report,
            self.tier,
            tap=is_full,
            host_ids=self.config.host_ids,
            cpu_weight=self.config.cpu_weight,
        )
        await fence.start()
        return fence

    async def _open(self, components: Components) -> None:
        """Recover the state that the previous engine left, and start the background components."""
        context, fence = components.context, components.fence
        self._exit.push_async_callback(context.removals.aclose)
        components.attachments = await Attachments.open(
            context, fence, users=self.report.users, network=self.network
        )
        context.hooks.can_mount = self.tier == Tier.NAMESPACES
        self._exit.push_async_callback(components.attachments.aclose)
        batch = Batch()
        components.catalogue.add_stock(batch, self.config.default_limits)
        await context.store.commit(batch)
        reached("recovery.fenced")
        recovery = Recovery(context, components.supervisor, components.removal)
        known = await recovery.run()
        await fence.collect(known)
        await components.attachments.egress.collect(known)
        reached("recovery.collected")
        await recovery.collect()
        components.templates = await Templates.open(
            context, components.catalogue, components.flattener, fence, self.report, self.tier
        )
        await context.layers.collect()
        reached("recovery.done")
        components.pool.start()
        context.expiry.start()
        components.sampler.start()
        components.flattener.consider_all()
        components.watchdog.start()
        context.cleaning.spawn(components.storage.prune.remove_old(), "sbx-quarantine")

    async def stop(self, *, kill_sandboxes: bool) -> None:
        """Stop the engine; does nothing if it does not run.

        With ``kill_sandboxes``, end all sandboxes except those paused on disk; else leave them
        running for the next engine.
        """
        if self._components is None:
            return
        components, self._components = self._components, None
        try:
            await shut_down(components, kill_sandboxes=kill_sandboxes)
        finally:
            await self._exit.aclose()
            await self._leave_helper()

    @property
    def sandboxes(self) -> Sandboxes:
        """Make, find, change and end sandboxes."""
        return self._running().sandboxes

    @property
    def observations(self) -> Observations:
        """Read metrics, logs and counts of sandboxes."""
        return self._running().observations

    @property
    def snapshots(self) -> Snapshots:
        """Make and list snapshots."""
        return self._running().snapshots

    @property
    def forks(self) -> Forks:
        """Start copies of running sandboxes."""
        return self._running().forks

    @property
    def templates(self) -> Templates:
        """Build, find, tag and remove templates."""
        return self._running().templates

    @property
    def attachments(self) -> Attachments:
        """Volumes, secrets and egress."""
        return self._running().attachments

    @property
    def storage(self) -> Storage:
        """Report disk use, prune, and compare sandboxes with what they started from."""
        return self._running().storage

    @property
    def fence(self) -> AnyFence:
        """The fence that makes the sandboxes."""
        return self._running().fence

    @property
    def store(self) -> Store:
        """The stored rows."""
        return self._running().context.store

    def _running(self) -> Components:
        if self._components is None:
            raise UnavailableError("the engine is not running")
        return self._components
