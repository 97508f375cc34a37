"""The engine: all sandboxes of this machine, and what may be asked of them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from sbx_jupyter.engine.assembly import Parts, assemble
from sbx_jupyter.engine.attachments import Attachments, network_of
from sbx_jupyter.engine.context import EngineConfig, Hooks
from sbx_jupyter.engine.sandboxes.changes import Changes
from sbx_jupyter.engine.sandboxes.lifecycle import unknown
from sbx_jupyter.engine.sandboxes.listing import Page, SandboxFilter, select
from sbx_jupyter.engine.sandboxes.recovery import Recovery
from sbx_jupyter.engine.sandboxes.wake import WakeCredential
from sbx_jupyter.engine.shutdown import shut_down
from sbx_jupyter.engine.state.datadir import DataDir
from sbx_jupyter.engine.state.logs import LogFilter
from sbx_jupyter.engine.state.store import Batch, Store
from sbx_jupyter.engine.storage.disk import MAX_AGE
from sbx_jupyter.engine.storage.snapshots import SnapshotFilter
from sbx_jupyter.engine.templates.service import Templates
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.engine.watch.gauges import Gauges, look
from sbx_jupyter.engine.watch.meters import Meters
from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.tiers import check_full_network, choose, detect
from sbx_jupyter.protocol.platform import DEFAULT_TIMEOUT_V1

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Mapping

    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.state.rows import SandboxRow
    from sbx_jupyter.engine.storage.diff.sandbox_diff import Diffs
    from sbx_jupyter.isolation.tiers import IsolationReport
    from sbx_jupyter.protocol.disk import DiskUse, PruneAnswer, PruneRequest, SandboxOperation
    from sbx_jupyter.protocol.platform import (
        NetworkConfig,
        NewSandbox,
        SandboxLogEntry,
        SandboxMetric,
        SnapshotInfo,
    )

__all__ = [
    "Engine",
    "EngineConfig",
    "LogFilter",
    "SandboxFilter",
    "SnapshotFilter",
    "WakeCredential",
]


class Engine:
    """Creates, finds, changes and ends sandboxes.

    Everything but ``start`` raises ``UnavailableError`` while the engine is not running.
    """

    report: IsolationReport
    tier: str
    network: str
    attachments: Attachments
    templates: Templates

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.hooks = Hooks()
        self.meters = Meters()
        self._parts: Parts | None = None
        self._exit = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Take the data directory, adopt what runs, and be ready.

        Raises ``FailedPreconditionError`` when another engine has the directory or a newer version
        wrote it, ``DataLossError`` when its store is damaged, ``IsolationError`` when this machine
        does not give the isolation that was asked for.
        """
        try:
            await self._start()
        except BaseException:
            await self._exit.aclose()
            raise

    async def _start(self) -> None:
        data_dir = DataDir(self.config.data_dir)
        data_dir.open()
        self._exit.callback(data_dir.close)
        reached("recovery.locked")
        store = Store(data_dir.database, on_commit=self.meters.commit_seconds.observe)
        await store.open()
        self._exit.push_async_callback(store.close)
        self.report = await asyncio.to_thread(detect, data_dir.path)
        self.tier = choose(self.report, self.config.isolation)
        is_full = self.config.network == "full"
        if is_full:
            check_full_network(self.report, self.tier)
        self.network = network_of(self.tier, self.config.network)
        fence = Fence(data_dir.path, self.report, self.tier, tap=is_full)
        await fence.start()
        self._exit.push_async_callback(fence.stop)
        parts = assemble(self.config, self.hooks, self.meters, data_dir, store, fence)
        self.attachments = await Attachments.open(
            parts.context,
            real_ids=self.report.users != "virtual",
            tier=self.tier,
        )
        self._exit.push_async_callback(self.attachments.aclose)
        batch = Batch()
        parts.catalog.add_stock(batch, self.config.default_limits)
        await store.commit(batch)
        reached("recovery.fenced")
        recovery = Recovery(parts.context, parts.supervisor)
        known = await recovery.run()
        await fence.collect(known)
        await self.attachments.egress.collect(known)
        reached("recovery.collected")
        await recovery.collect()
        self.templates = await Templates.open(
            parts.context, parts.catalog, fence, self.report, self.tier
        )
        await parts.layers.collect()
        reached("recovery.done")
        parts.pool.start()
        parts.context.expiry.start()
        parts.sampler.start()
        parts.snapshots.start()
        parts.watchdog.start()
        self._parts = parts

    async def stop(self, *, kill_sandboxes: bool) -> None:
        """Stop: end all sandboxes but those paused on disk, or leave them for the next engine."""
        if self._parts is None:
            return
        parts, self._parts = self._parts, None
        try:
            await shut_down(parts, self.templates.builder, kill_sandboxes=kill_sandboxes)
        finally:
            await self._exit.aclose()

    async def create(
        self, request: NewSandbox, *, version: int = 2, idempotency_key: str | None = None
    ) -> SandboxRow:
        """Make a sandbox (interface 1.3, S1 and S2).

        Raises ``InvalidArgumentError``, ``NotFoundError`` for an unknown template,
        ``ResourceExhaustedError`` when there are too many sandboxes or no space,
        ``KeyReusedError`` and ``AbortedError`` for idempotency keys (interface 1.2).
        """
        parts = self._running()
        work = parts.creation.create(request, version=version, idempotency_key=idempotency_key)
        return await parts.context.tasks.complete(work, "sbx-create")

    def get(self, sandbox_id: str) -> SandboxRow:
        """The row of a sandbox; raises ``NotFoundError``."""
        return self._running().context.slots.find(sandbox_id).row

    def list(self, wanted: SandboxFilter) -> Page:
        """A page of sandboxes (interface 1.3, S3); raises ``InvalidArgumentError``."""
        parts = self._running()
        template_id = None
        if wanted.template is not None:
            template = parts.catalog.find_for_filter(wanted.template)
            if template is None:
                return Page([], None, 0)
            template_id = template.template_id
        return select((slot.row for slot in parts.context.slots), wanted, template_id)

    # Changes

    async def kill(self, sandbox_id: str) -> None:
        """End a running or paused sandbox; waits for a change in flight. ``NotFoundError``."""
        await Changes(self._running()).kill(sandbox_id)

    async def pause(self, sandbox_id: str, memory: bool = True) -> None:
        """Pause a running sandbox; ``FailedPreconditionError`` when it is paused already."""
        await Changes(self._running()).pause(sandbox_id, memory)

    async def connect(
        self, sandbox_id: str, timeout: int, memory: bool | None = None
    ) -> tuple[SandboxRow, bool]:
        """Extend a running sandbox or resume a paused one; the flag says that it was resumed.

        Never shortens. Raises ``NotFoundError``, ``AbortedError`` while it is being killed, and
        ``InvalidArgumentError`` for the timeout.
        """
        return await Changes(self._running()).connect(sandbox_id, timeout, memory)

    async def resume(
        self,
        sandbox_id: str,
        timeout: int,
        memory: bool | None = None,
        auto_pause: bool | None = None,
    ) -> SandboxRow:
        """Resume a paused sandbox; ``FailedPreconditionError`` when it runs (interface S9)."""
        return await Changes(self._running()).resume(sandbox_id, timeout, memory, auto_pause)

    async def set_timeout(self, sandbox_id: str, timeout: int) -> None:
        """End the sandbox ``timeout`` seconds from now, sooner or later than before (S12)."""
        await Changes(self._running()).set_timeout(sandbox_id, timeout)

    async def refresh(self, sandbox_id: str, duration: int | None = None) -> None:
        """Keep the sandbox for at least ``duration`` seconds more (S13); never shortens."""
        await Changes(self._running()).refresh(sandbox_id, duration)

    async def set_network(self, sandbox_id: str, update: NetworkConfig) -> None:
        """Replace the egress configuration of a running sandbox (S14)."""
        await Changes(self._running()).set_network(sandbox_id, update)

    async def set_metadata(self, sandbox_id: str, changes: Mapping[str, str | None]) -> SandboxRow:
        """Change entries of a sandbox's metadata, running or paused; ``None`` removes one."""
        return await Changes(self._running()).set_metadata(sandbox_id, changes)

    async def snapshot(self, sandbox_id: str, name: str | None = None) -> SnapshotInfo:
        """Keep the files of a running sandbox as a template build (S19); see ``Snapshots``."""
        parts = self._running()
        return await parts.context.tasks.complete(
            parts.snapshots.create(sandbox_id, name), "sbx-snapshot"
        )

    async def fork(
        self, sandbox_id: str, timeout: int = DEFAULT_TIMEOUT_V1, count: int = 1
    ) -> builtins.list[SandboxRow | SbxError]:
        """Start copies of the files of a running sandbox (S11); see ``Snapshots``."""
        parts = self._running()
        work = parts.forks.create(sandbox_id, timeout, count)
        return await parts.context.tasks.complete(work, "sbx-fork")

    def snapshots(self, wanted: SnapshotFilter) -> tuple[builtins.list[SnapshotInfo], str | None]:
        """Snapshots, newest first, and the cursor of the next page (S20)."""
        return self._running().snapshots.list(wanted)

    async def remove_template(self, reference: str) -> None:
        """Remove a template or snapshot (T16); see ``Catalog.remove``."""
        parts = self._running()
        work = self.templates.builder.remove(reference)
        await parts.context.tasks.complete(work, "sbx-remove-template")

    # What is known about a sandbox

    def metrics(
        self, sandbox_id: str, start: int | None = None, end: int | None = None
    ) -> list[SandboxMetric]:
        """Readings in order of time (S15); empty for an unknown sandbox."""
        return self._running().context.history.between(sandbox_id, start, end)

    def latest_metric(self, sandbox_id: str) -> SandboxMetric | None:
        """The newest reading (S16)."""
        return self._running().context.history.latest(sandbox_id)

    def logs(self, sandbox_id: str, wanted: LogFilter | None = None) -> list[SandboxLogEntry]:
        """Log entries (S17 and S18), also of sandboxes that ended; raises ``NotFoundError``."""
        context = self._running().context
        if sandbox_id not in context.journal and context.slots.get(sandbox_id) is None:
            raise unknown(sandbox_id)
        found = context.journal.select(sandbox_id, wanted or LogFilter(direction="forward"))
        return [row.to_entry() for row in found]

    # For the gateway and the runtime handlers

    async def live(self, sandbox_id: str, *, wake: WakeCredential | None = None) -> Sandbox:
        """The running sandbox; a paused one is resumed if it and the credential allow that.

        Raises ``NotFoundError`` ("The sandbox was not found"), and what ``Gate.enter`` says.
        """
        gate = self._running().gate
        return gate.find(sandbox_id) or await gate.enter(sandbox_id, wake)

    def find_live(self, sandbox_id: str) -> Sandbox | None:
        """The sandbox if it runs right now; others have to ask ``live``."""
        return self._running().gate.find(sandbox_id)

    def access_token(self, sandbox_id: str) -> str | None:
        """The access token, ``None`` for an open sandbox; raises ``NotFoundError``."""
        return self.get(sandbox_id).access_token

    def find_by_signature(self, check: Callable[[str], bool]) -> str | None:
        """The sandbox whose access token passes the check of a signature (interface 2.3)."""
        for slot in self._running().context.slots:
            token = slot.row.access_token
            if token is not None and slot.state.is_shown and check(token):
                return slot.sandbox_id
        return None

    def gauges(self) -> Gauges:
        """How much there is of everything now."""
        return look(self._running())

    def rows(self) -> builtins.list[SandboxRow]:
        """Every sandbox in any state, also those that clients are not shown."""
        return [slot.row for slot in self._running().context.slots]

    @property
    def diffs(self) -> Diffs:
        """What sandboxes changed."""
        return self._running().diffs

    async def disk_use(self, max_age: float = MAX_AGE) -> DiskUse:
        """What everything takes on the disk; see ``Disk.report``."""
        return await self._running().disk.report(max_age)

    async def prune(self, request: PruneRequest) -> PruneAnswer:
        """Remove what is only kept because it may be of use again; see ``Prune.run``."""
        parts = self._running()
        work = parts.prune.run(request)
        return await parts.context.tasks.complete(work, "sbx-prune")

    def operations(self, sandbox_id: str) -> builtins.list[SandboxOperation]:
        """The work in progress on a sandbox that may take long; raises ``NotFoundError``."""
        context = self._running().context
        context.slots.find(sandbox_id)
        return context.operations.of(sandbox_id)

    def cancel_operation(self, sandbox_id: str, operation_id: str) -> None:
        """End such work; see ``Operations.cancel``. Raises ``NotFoundError``."""
        context = self._running().context
        context.slots.find(sandbox_id)
        context.operations.cancel(sandbox_id, operation_id)

    @property
    def store(self) -> Store:
        """The rows, for the parts that keep templates."""
        return self._running().context.store

    async def wait_ready(self) -> None:
        """Wait until the pool of ready sandboxes is full."""
        await self._running().pool.wait_filled()

    def _running(self) -> Parts:
        if self._parts is None:
            raise UnavailableError("the engine is not running")
        return self._parts
