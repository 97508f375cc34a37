"""Changes of one sandbox that is there: each waits for the one before it, and is whole or not."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.networks import replace_egress
from sbx_jupyter.engine.sandboxes.admission import check_timeout
from sbx_jupyter.engine.sandboxes.lifecycle import State, unknown
from sbx_jupyter.engine.state.rows import SandboxRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import AbortedError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbx_jupyter.engine.assembly import Parts
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.protocol.platform import NetworkConfig

_MIN_REFRESH: Final = 15
_MAX_REFRESH: Final = 3600


class Changes:
    """What ``Engine`` has under the same names, and says more about."""

    def __init__(self, parts: Parts) -> None:
        self._context = parts.context
        self._supervisor = parts.supervisor
        self._max_timeout = parts.context.config.max_timeout

    async def kill(self, sandbox_id: str) -> None:
        slot = self._context.slots.get(sandbox_id)
        if slot is None or slot.state in (State.KILLING, State.LOST):
            raise unknown(sandbox_id)

        async def work() -> None:
            async with slot.lock:
                if slot.state in (State.KILLING, State.LOST):
                    raise unknown(sandbox_id)
                await self._supervisor.end(slot, "killed")

        await self._context.tasks.complete(work(), "sbx-kill")

    async def pause(self, sandbox_id: str, memory: bool = True) -> None:
        slot = self._context.slots.find(sandbox_id)

        async def work() -> None:
            async with slot.operate("pause"):
                await self._supervisor.pause(slot, memory=memory)

        await self._context.tasks.complete(work(), "sbx-pause")

    async def connect(
        self, sandbox_id: str, timeout: int, memory: bool | None = None
    ) -> tuple[SandboxRow, bool]:
        self._check_timeout(timeout)
        slot = self._context.slots.get(sandbox_id)
        if slot is None:
            raise unknown(sandbox_id)
        if slot.state in (State.KILLING, State.LOST):
            raise AbortedError(f"Sandbox {sandbox_id} is being killed")

        async def work() -> tuple[SandboxRow, bool]:
            async with slot.lock:
                reached("connect.found")
                if not slot.state.is_shown:
                    raise unknown(sandbox_id)
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
        self._check_timeout(timeout)
        slot = self._context.slots.find(sandbox_id)

        async def work() -> SandboxRow:
            async with slot.operate("resume"):
                if auto_pause is not None:
                    slot.row = replace(slot.row, auto_pause=auto_pause)
                await self._supervisor.resume(slot, timeout, memory=memory is not False)
                return slot.row

        return await self._context.tasks.complete(work(), "sbx-resume")

    async def set_timeout(self, sandbox_id: str, timeout: int) -> None:
        slot = self._context.slots.find(sandbox_id)
        async with slot.operate("set_timeout"):
            at = now()
            last = slot.row.window_start + dt.timedelta(seconds=self._max_timeout)
            if last <= at:
                raise InvalidArgumentError("Max instance length exceeded")
            end_at = at + dt.timedelta(seconds=min(max(timeout, 0), self._max_timeout))
            await self._supervisor.set_end(slot, min(end_at, last))

    async def refresh(self, sandbox_id: str, duration: int | None = None) -> None:
        seconds = _MIN_REFRESH if duration is None else duration
        if not 0 <= seconds <= _MAX_REFRESH:
            raise InvalidArgumentError(f"duration must be between 0 and {_MAX_REFRESH}")
        slot = self._context.slots.find(sandbox_id)
        async with slot.operate("refresh"):
            await self._extend(slot, max(seconds, _MIN_REFRESH))

    async def _extend(self, slot: Slot, seconds: int) -> None:
        last = slot.row.window_start + dt.timedelta(seconds=self._max_timeout)
        end_at = min(now() + dt.timedelta(seconds=seconds), last)
        if end_at > slot.row.end_at:
            await self._supervisor.set_end(slot, end_at)

    def _check_timeout(self, timeout: int) -> None:
        if timeout < 0:
            raise InvalidArgumentError("Timeout must be greater than or equal to 0")
        check_timeout(timeout, self._max_timeout)

    async def set_network(self, sandbox_id: str, update: NetworkConfig) -> None:
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
        slot = self._context.slots.find(sandbox_id)
        async with slot.operate("set_metadata"):
            merged = {**slot.row.metadata, **changes}
            kept = {key: value for key, value in merged.items() if value is not None}
            row = replace(slot.row, metadata=kept)
            await self._context.commit(Batch().put(row))
            slot.row = row
        return row
