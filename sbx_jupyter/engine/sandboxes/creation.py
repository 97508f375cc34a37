"""Makes sandboxes: takes one from the pool if it fits, else starts a new one."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sbx_jupyter.engine.owners import caller
from sbx_jupyter.engine.sandboxes.admission import check_request, check_request_network, is_secured
from sbx_jupyter.engine.sandboxes.idempotency import IdempotencyKeys, check_key
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.sandboxes.placement import limits_for
from sbx_jupyter.engine.sandboxes.shown_directories import check_shown
from sbx_jupyter.engine.sandboxes.slots import Slot
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.rows import Row, SandboxRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.engine.watch.meters import metered
from sbx_jupyter.errors import InternalError, InvalidArgumentError, UnimplementedError, see
from sbx_jupyter.protocol.access import new_access_token, new_sandbox_id

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.pool import Pool
    from sbx_jupyter.engine.sandboxes.removal import Removal
    from sbx_jupyter.engine.sandboxes.supervisor import Supervisor
    from sbx_jupyter.engine.state.rows import BuildRow, TemplateRow
    from sbx_jupyter.engine.templates.catalogue import Catalogue
    from sbx_jupyter.protocol.platform import NewSandbox

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TemplateUses:
    """The number and the last time of each template's uses that are not stored yet."""

    counts: dict[str, tuple[int, dt.datetime]]

    def add(self, template_id: str) -> None:
        count, _ = self.counts.get(template_id, (0, None))
        self.counts[template_id] = (count + 1, now())


class Creation:
    """Turns requests into running sandboxes."""

    def __init__(
        self,
        context: Context,
        catalogue: Catalogue,
        supervisor: Supervisor,
        removal: Removal,
        pool: Pool,
        *,
        shows_directories: bool,
    ) -> None:
        """``shows_directories``: whether sandboxes may see more of the machine when asked for."""
        self._context = context
        self._catalogue = catalogue
        self._supervisor = supervisor
        self._removal = removal
        self._pool = pool
        self._shows_directories = shows_directories
        self._keys = IdempotencyKeys(context.store)
        self.uses = TemplateUses({})

    @metered("create")
    async def create(
        self, request: NewSandbox, *, version: int = 2, idempotency_key: str | None = None
    ) -> SandboxRow:
        """Make the sandbox of a request, or return the one that its idempotency key made before.

        Raises what ``Sandboxes.create`` lists.
        """
        if idempotency_key is None:
            return await self._create(request, version, None)
        check_key(idempotency_key)
        if owner := caller().owner:
            # The key of one owner must not lead to the sandbox of another, with its tokens.
            idempotency_key = f"{owner}\n{idempotency_key}"
        known = self._keys.find(idempotency_key, request, version)
        slot = None if known is None else self._context.slots.get(known)
        if slot is not None and slot.state.is_shown:
            return slot.row
        with self._keys.hold(idempotency_key, request, version):
            return await self._create(request, version, idempotency_key)

    async def _create(
        self, request: NewSandbox, version: int, idempotency_key: str | None
    ) -> SandboxRow:
        row = self._draft(request, version)
        extra: list[Row] = []
        if idempotency_key is not None:
            extra = [self._keys.row(idempotency_key, request, version, row.sandbox_id)]
        return await self.launch(row, extra)

    async def launch(self, row: SandboxRow, extra: list[Row] | None = None) -> SandboxRow:
        """Start the sandbox that a drafted row describes and store it with ``extra`` rows.

        The row is stored once there are processes. If the engine ends before that, the next engine
        removes the files that were made, because no row names them.
        """
        # Keep the layers from being removed before a stored row names them.
        layers = self._context.layers
        try:
            with layers.hold(row.layers):
                return await self._launch(row, extra)
        except BaseException:
            await layers.collect(row.layers)
            raise

    async def _launch(self, row: SandboxRow, extra: list[Row] | None) -> SandboxRow:
        context = self._context
        context.slots.check_room()
        context.config.quotas.check_sandbox(row, context.slots, context.store.volumes)
        limits = limits_for(row, context.config.default_limits)
        is_plain = not row.volume_mounts and not row.shown
        ready = None if not is_plain else self._pool.take(limits, row.base, row.layers)
        if ready is not None:
            extra = [_renamed(other, row.sandbox_id, ready.sandbox_id) for other in extra or ()]
            row = replace(row, sandbox_id=ready.sandbox_id)
        slot = Slot(row, None if ready is None else ready.placed)
        async with slot.lock:
            reached("create.drafted")
            context.slots.add(slot)
            try:
                await self._start(slot, extra or [])
            except BaseException:
                await self._removal.discard(slot)
                raise
            self._supervisor.watch(slot)
        return slot.row

    async def _start(self, slot: Slot, extra: list[Row]) -> None:
        if slot.placed is None or slot.row.start_command or slot.row.ready_command:
            await self._begin(slot)
            row = await self._store(slot, extra)
        else:
            row = await self._begin_and_store(slot, extra)
        slot.set_stored_row(row)
        self.uses.add(row.template_id)

    async def _begin_and_store(self, slot: Slot, extra: list[Row]) -> SandboxRow:
        """Do both at once for a sandbox of the pool, which only gets its settings.

        An engine that takes it up from its row gives it the settings again.
        """
        storing = self._context.tasks.spawn(self._store(slot, extra), "sbx-store-sandbox")
        try:
            await self._begin(slot)
        except BaseException:
            await asyncio.wait({storing})  # for ``discard``, which removes the row again
            raise
        return await storing

    async def _begin(self, slot: Slot) -> None:
        row = slot.row
        if slot.placed is None:
            slot.placed = await self._context.placement.place(self._supervisor.plan(row))
        elif (sandbox := slot.placed.sandbox) is not None:
            await sandbox.configure(
                envs=self._context.envs_of(row),
                default_user=row.default_user,
                default_cwd=row.default_cwd,
            )
        await self._supervisor.begin(slot)
        reached("create.begun")

    async def _store(self, slot: Slot, extra: list[Row]) -> SandboxRow:
        placed = slot.placed
        if placed is None:
            raise InternalError("the sandbox was not started")
        at = now()
        row = replace(
            slot.row,
            state=State.RUNNING,
            started_at=at,
            window_start=at,
            end_at=at + dt.timedelta(seconds=slot.row.timeout),
            cage=placed.cage.to_state(),
            boot_id=self._context.boot_id,
        )
        fields = {"template_id": row.template_id}
        batch = (
            Batch().put(row).log(logs.entry(row.sandbox_id, "info", "Sandbox started", **fields))
        )
        batch.puts.extend(extra)
        await self._context.commit(batch)
        reached("create.stored")
        return row

    def _draft(self, request: NewSandbox, version: int) -> SandboxRow:
        """Check a request and draft its row.

        Raises ``InvalidArgumentError``, and ``NotFoundError`` for an unknown template.
        """
        context = self._context
        timeout = check_request(request, version=version, max_timeout=context.config.max_timeout)
        template, build = self._catalogue.resolve(request.template_id)
        secured = is_secured(request, version)
        network = check_request_network(request, secured=secured)
        is_private = network is not None and network.allow_public_traffic is False
        row = draft_from(template, build)
        row = replace(
            row,
            owner=caller().owner,
            timeout=timeout,
            memory_mb=row.memory_mb if request.memory_mb is None else request.memory_mb,
            access_token=new_access_token() if secured else None,
            traffic_token=new_access_token() if is_private else None,
            metadata=request.metadata or {},
            envs=request.env_vars or {},
            network=network,
            allow_internet_access=request.allow_internet_access,
            volume_mounts=request.volume_mounts or [],
            shown=self._shown(request),
            mcp=request.mcp,
            iam=request.iam,
            auto_pause=request.auto_pause,
            auto_pause_memory=request.auto_pause_memory,
            auto_resume=request.auto_resume is not None and request.auto_resume.enabled,
        )
        if row.volume_mounts and context.hooks.mounts is not None:
            if not context.hooks.can_mount:
                raise InvalidArgumentError(
                    "volumes need isolation by namespaces, which this engine does not have"
                    f"{see('tiers')}"
                )
            context.hooks.mounts(row.volume_mounts, row.owner)
        return row

    def _shown(self, request: NewSandbox) -> tuple[str, ...]:
        """The directories that a sandbox shall see besides. Raises ``SbxError``."""
        asked = request.shown_directories
        if not asked:
            return ()
        if not self._shows_directories:
            raise UnimplementedError(
                "this engine shows no more directories: that needs the tier 'namespaces', without"
                " a user of the engine's own"
            )
        return check_shown(asked, data_dir=self._context.data_dir.path)


def draft_from(template: TemplateRow, build: BuildRow) -> SandboxRow:
    """The row of a new sandbox of a build; the caller sets times, timeout and lifecycle."""
    at = now()
    return SandboxRow(
        sandbox_id=new_sandbox_id(),
        template_id=template.template_id,
        build_id=build.build_id,
        state=State.CREATING,
        started_at=at,
        end_at=at,
        window_start=at,
        timeout=0,
        cpu_count=build.cpu_count,
        memory_mb=build.memory_mb,
        disk_size_mb=build.disk_size_mb,
        alias=template.aliases[0] if template.aliases else None,
        base=build.base,
        layers=build.layers,
        default_user=build.default_user,
        default_cwd=build.default_cwd,
        template_envs=build.envs,
        start_command=build.start_command,
        ready_command=build.ready_command,
    )


def _renamed(row: Row, before: str, after: str) -> Row:
    """The row with the sandbox id ``after`` if it had ``before``: the pool's id replaces it."""
    if getattr(row, "sandbox_id", None) == before:
        return replace(row, sandbox_id=after)
    return row
