"""The operations on the sandboxes of an engine: make, find, change and end them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.networks import replace_egress
from sbx_jupyter.engine.owners import caller
from sbx_jupyter.engine.sandboxes.admission import check_timeout
from sbx_jupyter.engine.sandboxes.lifecycle import State, unknown_sandbox_error
from sbx_jupyter.engine.sandboxes.listing import Page, SandboxFilter, select
from sbx_jupyter.engine.sandboxes.wake import Waker
from sbx_jupyter.engine.state.rows import SandboxRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import AbortedError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.sandboxes.creation import Creation
    from sbx_jupyter.engine.sandboxes.pool import Pool
    from sbx_jupyter.engine.sandboxes.removal import Removal
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.engine.sandboxes.supervisor import Supervisor
    from sbx_jupyter.engine.sandboxes.wake import WakeCredential
    from sbx_jupyter.engine.templates.catalogue import Catalogue
    from sbx_jupyter.protocol.disk import SandboxOperation
    from sbx_jupyter.protocol.platform import NetworkConfig, NewSandbox

_MIN_REFRESH: Final = 15
_MAX_REFRESH: Final = 3600


class Sandboxes:
    """Makes, finds, changes and ends the sandboxes of one engine.

    Changes of one sandbox happen one after the other. Create, pause, resume and kill go on when
    their caller is cancelled.
    """

    def __init__(
        self,
        context: Context,
        catalogue: Catalogue,
        supervisor: Supervisor,
        removal: Removal,
        creation: Creation,
        pool: Pool,
    ) -> None:
        self.pool = pool
        self._context = context
        self._catalogue = catalogue
        self._supervisor = supervisor
        self._removal = removal
        self._creation = creation
        self._waker = Waker(context, supervisor)
        self._max_timeout = context.config.max_timeout

    async def create(
        self, request: NewSandbox, *, version: int = 2, idempotency_key: str | None = None
    ) -> SandboxRow:
        """Make a sandbox (interface 1.3, S1 and S2).

        Raises ``InvalidArgumentError``, ``NotFoundError`` for an unknown template,
        ``ResourceExhaustedError`` when there are too many sandboxes or no space,
        ``KeyReusedError`` and ``AbortedError`` for idempotency keys (interface 1.2).
        """
        work = self._creation.create(request, version=version, idempotency_key=idempotency_key)
        return await self._context.tasks.complete(work, "sbx-create")

    # Finding

    def get(self, sandbox_id: str) -> SandboxRow:
        """The row of a sandbox that clients may see; raises ``NotFoundError``."""
        return self._context.slots.find(sandbox_id).row

    def list(self, wanted: SandboxFilter) -> Page:
        """A page of sandboxes (interface 1.3, S3); raises ``InvalidArgumentError``."""
        template_id = None
        if wanted.template is not None:
            template = self._catalogue.find_for_filter(wanted.template)
            if template is None:
                return Page([], None, 0)
            template_id = template.template_id
        return select(self.rows(), wanted, template_id)

    def owner_of(self, sandbox_id: str) -> str | None:
        """The owner of the sandbox; ``None`` for one that has ended."""
        slot = self._context.slots.get(sandbox_id)
        return None if slot is None else slot.row.owner

    def is_usable(self, sandbox_id: str) -> bool:
        """Whether the caller may use the sandbox.

        Only callers that may use everything find what is left of one that has ended.
        """
        return caller().sees_all or self.owner_of(sandbox_id) == caller().owner

    def check_caller(self, sandbox_id: str) -> None:
        """Raise ``NotFoundError`` if the caller may not use the sandbox."""
        if not self.is_usable(sandbox_id):
            raise unknown_sandbox_error(sandbox_id)

    def rows(self) -> Sequence[SandboxRow]:
        """The rows of all sandboxes in any state, also those that clients do not see."""
        return [slot.row for slot in self._context.slots]

    def find_live(self, sandbox_id: str) -> Sandbox | None:
        """The sandbox if it is running now, else ``None``."""
        slot = self._context.slots.get(sandbox_id)
        if slot is None or slot.state is not State.RUNNING or slot.placed is None:
            return None
        return slot.placed.sandbox

    async def live(self, sandbox_id: str, *, wake: WakeCredential | None = None) -> Sandbox:
        """The running sandbox; resumes a paused one if it and the credential ``wake`` allow that.

        Raises the errors of ``Waker.wake``.
        """
        return self.find_live(sandbox_id) or await self._waker.wake(sandbox_id, wake)

    def access_token(self, sandbox_id: str) -> str | None:
        """The access token, ``None`` for an unsecured sandbox; raises ``NotFoundError``."""
        return self.get(sandbox_id).access_token

    def find_by_signature(self, check: Callable[[str], bool]) -> str | None:
        """The id of the sandbox whose access token passes ``check``, if any (interface 2.3)."""
        for slot in self._context.slots:
            token = slot.row.access_token
            if token is not None and slot.state.is_shown and check(token):
                return slot.sandbox_id
        return None

    # Changing and ending

    async def kill(self, sandbox_id: str) -> None:
        """End a running or paused sandbox, after a change in progress; raises ``NotFoundError``."""
        slot = self._context.slots.get(sandbox_id)
        if slot is None or slot.state in (State.KILLING, State.LOST):
            raise unknown_sandbox_error(sandbox_id)

        async def work() -> None:
            async with slot.lock:
                if slot.state in (State.KILLING, State.LOST):
                    raise unknown_sandbox_error(sandbox_id)
                await self._removal.end(slot, "killed")

        await self._context.tasks.complete(work(), "sbx-kill")

    async def pause(self, sandbox_id: str, memory: bool = True) -> None:
        """Pause a running sandbox; without ``memory``, keep its files only.

        Raises ``NotFoundError``, and ``FailedPreconditionError`` when it is paused already.
        """
        slot = self._context.slots.find(sandbox_id)

        async def work() -> None:
            async with slot.operate("pause"):
                await self._supervisor.pause(slot, memory=memory)

        await self._context.tasks.complete(work(), "sbx-pause")

    async def connect(
        self, sandbox_id: str, timeout: int, memory: bool | None = None
    ) -> tuple[SandboxRow, bool]:
        """Extend a running sandbox or resume a paused one; return its row and whether it resumed.

        ``timeout`` is in seconds from now and never shortens the time that is left. Raises
        ``NotFoundError``, ``AbortedError`` while the sandbox is being killed, and
        ``InvalidArgumentError`` for the timeout.
        """
        self._check_timeout(timeout)
        slot = self._context.slots.get(sandbox_id)
        if slot is None:
            raise unknown_sandbox_error(sandbox_id)
        if slot.state in (State.KILLING, State.LOST):
            raise AbortedError(f"Sandbox {sandbox_id} is being killed")

        async def work() -> tuple[SandboxRow, bool]:
            async with slot.lock:
                reached("connect.found")
                if not slot.state.is_shown:
                    raise unknown_sandbox_error(sandbox_id)
                if slot.state is State.PAUSED:
                    await self._supervisor.resume(slot, timeout, memory=memory is not False)
                    return slot.row, True
                await self._extend(slot, timeout)
                return slot.row, False

        return await self._context.tasks.complete(work(), "sbx-connect")

    async def resume(
        self,
        sandbox_id: str,
        timeout: int,
        memory: bool | None = None,
        auto_pause: bool | None = None,
    ) -> SandboxRow:
        """Resume a paused sandbox for ``timeout`` seconds (interface S9).

        Without ``memory`` it boots anew; ``auto_pause`` replaces its setting. Raises
        ``NotFoundError``, ``FailedPreconditionError`` when it runs, ``InvalidArgumentError``.
        """
        self._check_timeout(timeout)
        slot = self._context.slots.find(sandbox_id)

        async def work() -> SandboxRow:
            async with slot.operate("resume"):
                await self._supervisor.resume(
                    slot, timeout, memory=memory is not False, auto_pause=auto_pause
                )
                return slot.row

        return await self._context.tasks.complete(work(), "sbx-resume")

    async def set_timeout(self, sandbox_id: str, timeout: int) -> None:
        """Set the end time to ``timeout`` seconds from now, earlier or later than before (S12).

        Raises ``NotFoundError``, and ``InvalidArgumentError`` when its maximum life is over.
        """
        slot = self._context.slots.find(sandbox_id)
        async with slot.operate("set_timeout"):
            at = now()
            last = slot.row.window_start + dt.timedelta(seconds=self._max_timeout)
            if last <= at:
                raise InvalidArgumentError("Max instance length exceeded")
            end_at = at + dt.timedelta(seconds=min(max(timeout, 0), self._max_timeout))
            await self._supervisor.set_end(slot, min(end_at, last))

    async def refresh(self, sandbox_id: str, duration: int | None = None) -> None:
        """Keep the sandbox for at least ``duration`` seconds more, default 15 (S13).

        Never shortens the time left. Raises ``NotFoundError``, ``InvalidArgumentError``.
        """
        seconds = _MIN_REFRESH if duration is None else duration
        if not 0 <= seconds <= _MAX_REFRESH:
            raise InvalidArgumentError(f"duration must be between 0 and {_MAX_REFRESH}")
        slot = self._context.slots.find(sandbox_id)
        async with slot.operate("refresh"):
            await self._extend(slot, max(seconds, _MIN_REFRESH))

    async def set_network(self, sandbox_id: str, update: NetworkConfig) -> None:
        """Replace the egress configuration of a running sandbox (S14).

        Raises ``NotFoundError``, ``InvalidArgumentError``.
        """
        slot = self._context.slots.find(sandbox_id)
        async with slot.operate("set_network"):
            row = replace(
                slot.row,
                network=replace_egress(slot.row.network, update),
                allow_internet_access=update.allow_internet_access,
            )
            await self._context.commit(Batch().put(row))
            reached("network.stored")
            slot.row = row
            placed = slot.placed
            if placed is not None and placed.sandbox is not None:
                for hook in self._context.hooks.network_changed:
                    await hook(row, placed.sandbox)
            reached("network.applied")

    async def set_metadata(self, sandbox_id: str, changes: Mapping[str, str | None]) -> SandboxRow:
        """Change metadata entries of a running or paused sandbox; a value ``None`` removes one."""
        slot = self._context.slots.find(sandbox_id)
        async with slot.operate("set_metadata"):
            merged = {**slot.row.metadata, **changes}
            kept = {key: value for key, value in merged.items() if value is not None}
            row = replace(slot.row, metadata=kept)
            await self._context.commit(Batch().put(row))
            slot.row = row
        return row

    # Long operations

    def operations(self, sandbox_id: str) -> Sequence[SandboxOperation]:
        """Its snapshots, forks and pauses in progress; raises ``NotFoundError``."""
        self._context.slots.find(sandbox_id)
        return self._context.operations.of(sandbox_id)

    def cancel_operation(self, sandbox_id: str, operation_id: str) -> None:
        """Cancel a snapshot or a fork while it copies; see ``Operations.cancel``."""
        self._context.slots.find(sandbox_id)
        self._context.operations.cancel(sandbox_id, operation_id)

    async def _extend(self, slot: Slot, seconds: int) -> None:
        last = slot.row.window_start + dt.timedelta(seconds=self._max_timeout)
        end_at = min(now() + dt.timedelta(seconds=seconds), last)
        if end_at > slot.row.end_at:
            await self._supervisor.set_end(slot, end_at)

    def _check_timeout(self, timeout: int) -> None:
        if timeout < 0:
            raise InvalidArgumentError("Timeout must be greater than or equal to 0")
        check_timeout(timeout, self._max_timeout)
