"""What happens to a sandbox between its creation and its end: every change of its state."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from sbx_jupyter.engine.sandboxes.lifecycle import State, unknown
from sbx_jupyter.engine.sandboxes.placement import (
    Placed,
    freeze,
    limits_for,
    opened,
    plan_for,
    wait_dead,
)
from sbx_jupyter.engine.sandboxes.startup import run_start_command
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.rows import LogRow, RequestRow, SandboxRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.engine.watch.meters import metered
from sbx_jupyter.errors import NoSpaceError, SbxError, UnimplementedError
from sbx_jupyter.protocol import agent as ops

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.slots import Slot

_log = logging.getLogger(__name__)

_RETRY_DELAY: Final = 1.0

Reason = Literal["killed", "timeout", "lost", "stopped"]

_ENDED: Final[dict[Reason, tuple[logs.Level, str]]] = {
    "killed": ("info", "Sandbox killed"),
    "timeout": ("info", "Sandbox timed out and was killed"),
    "lost": ("error", "Sandbox lost"),
    "stopped": ("info", "Sandbox killed, the engine stops"),
}


class Supervisor:
    """Pauses, resumes, ends and watches over sandboxes.

    Methods that take a slot expect its lock to be held, unless they say otherwise.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    # Beginning

    async def begin(self, slot: Slot) -> None:
        """Watch a sandbox with new processes, tell who wants to know, run its start command."""
        await self._tell_started(slot)
        self.watch(slot)
        row = slot.row
        await run_start_command(row.start_command, row.ready_command, opened(self._placed(slot)))

    async def _tell_started(self, slot: Slot) -> None:
        sandbox = opened(self._placed(slot))
        for hook in self._context.hooks.started:
            await hook(slot.row, sandbox)

    def watch(self, slot: Slot) -> None:
        """Notice the death of the processes, and the end time while the sandbox runs."""
        if slot.placed is not None and slot.guard is None:
            slot.guard = self._context.guards.spawn(
                self._guard(slot, slot.placed), f"sbx-guard-{slot.sandbox_id}"
            )
        if slot.state is State.RUNNING:
            self._context.expiry.schedule(slot.sandbox_id, slot.row.end_at.timestamp())

    async def set_end(self, slot: Slot, end_at: dt.datetime) -> None:
        """Move the end time of a running sandbox."""
        row = replace(slot.row, end_at=end_at)
        await self._context.commit(Batch().put(row))
        reached("timeout.stored")
        slot.settle(row)
        self._context.expiry.schedule(slot.sandbox_id, end_at.timestamp())

    # Pause

    @metered("pause")
    async def pause(self, slot: Slot, *, memory: bool, why: str = "Sandbox paused") -> None:
        """Pause a running sandbox, with its memory or as files only."""
        slot.move(State.PAUSING)
        self._context.expiry.cancel(slot.sandbox_id)
        try:
            if memory:
                await self._pause_full(slot, why)
            else:
                await self._pause_filesystem(slot, why)
        except BaseException:
            if slot.placed is not None:
                slot.move(State.RUNNING)
                self.watch(slot)
            else:
                # Too late to go back; the stored row says "pausing", which ends here as well.
                slot.move(State.PAUSED)
                slot.row = replace(slot.row, pause_mode="filesystem", cage=None, end_at=now())
            raise

    async def _pause_full(self, slot: Slot, why: str) -> None:
        placed = self._placed(slot)
        await freeze(placed)
        reached("pause.frozen")
        try:
            await self._commit_paused(slot, "full", why)
        except BaseException:
            await self.wake(slot)
            raise
        if placed.sandbox is not None:
            placed.sandbox.hang_up()
        for hook in self._context.hooks.paused:
            await hook(slot.sandbox_id)

    async def _pause_filesystem(self, slot: Slot, why: str) -> None:
        # The row says so before the processes end: an engine that dies now must not take the
        # sandbox for lost, but go on here.
        await self._context.commit(Batch().put(slot.row))
        reached("pause.marked")
        with self._context.operations.begin(slot.sandbox_id, "pause") as work:
            work.phase = "finishing"
            await self._end_processes(slot)
            reached("pause.ended")
            work.phase = "storing"
            await self._context.layers.sync_writable(slot.sandbox_id)
        reached("pause.synced")
        await self._commit_paused(slot, "filesystem", why)

    async def _commit_paused(
        self, slot: Slot, mode: Literal["full", "filesystem"], why: str
    ) -> None:
        row = replace(
            slot.row,
            state=State.PAUSED,
            pause_mode=mode,
            end_at=now(),
            cage=slot.row.cage if mode == "full" else None,
        )
        level: logs.Level = "info" if why == "Sandbox paused" else "warn"
        entry = logs.entry(slot.sandbox_id, level, why, pause_mode=mode)
        await self._context.commit(Batch().put(row).log(entry))
        reached("pause.stored")
        slot.settle(row)

    # Resume

    @metered("resume")
    async def resume(self, slot: Slot, timeout: int, *, memory: bool = True) -> None:
        """Let a paused sandbox run again for ``timeout`` seconds; without memory it boots."""
        self._context.slots.check_room(0 if slot.occupies else 1)
        slot.move(State.RESUMING)
        try:
            if slot.row.pause_mode == "full" and memory and slot.placed is not None:
                await self.wake(slot)
                reached("resume.thawed")
            else:
                await self._boot(slot)
                reached("resume.booted")
            await self._commit_resumed(slot, timeout)
        except BaseException:
            await self._back_to_paused(slot)
            raise
        self.watch(slot)

    async def wake(self, slot: Slot) -> None:
        """Let frozen processes go on, and speak to the agent where nobody did yet.

        Does no harm to processes that are not frozen.
        """
        placed = self._placed(slot)
        is_by_agent = False
        try:
            await placed.cage.thaw()
        except UnimplementedError:
            is_by_agent = True
        is_new = placed.sandbox is None
        if is_new:
            limits = limits_for(slot.row, self._context.config.default_limits)
            await self._context.placement.open(
                placed, slot.row, limits, self._context.envs_of(slot.row)
            )
        if is_by_agent:
            await opened(placed).call(ops.FREEZE, frozen=False)
        if is_new:
            await self._tell_started(slot)
            return
        opened(placed).go_on()
        for hook in self._context.hooks.resumed:
            await hook(slot.sandbox_id)

    async def refreeze(self, slot: Slot) -> None:
        """Make sure that an adopted sandbox stands still; does no harm to one that does."""
        placed = self._placed(slot)
        try:
            await placed.cage.freeze()
        except UnimplementedError:
            limits = limits_for(slot.row, self._context.config.default_limits)
            envs = self._context.envs_of(slot.row)
            await self._context.placement.open(placed, slot.row, limits, envs)
            await freeze(placed)

    async def _boot(self, slot: Slot) -> None:
        """Start new processes on the writable layer that the sandbox left."""
        await self._end_processes(slot)
        reached("resume.booting")
        context = self._context
        # What was merged since it was paused is one layer for it from now on.
        layers = context.layers.shorten(slot.row.layers)
        slot.row = replace(slot.row, pause_mode="filesystem", cage=None, layers=layers)
        limits = limits_for(slot.row, context.config.default_limits)
        plan = plan_for(
            slot.row, context.data_dir, limits, context.envs_of(slot.row), self.volumes(slot.row)
        )
        slot.placed = await context.placement.place(plan, fresh=False)
        await self.begin(slot)

    async def _commit_resumed(self, slot: Slot, timeout: int) -> None:
        at = now()
        row = replace(
            slot.row,
            state=State.RUNNING,
            pause_mode=None,
            window_start=at,
            end_at=at + dt.timedelta(seconds=timeout),
            cage=self._placed(slot).cage.to_state(),
            boot_id=self._context.boot_id,
        )
        before = self._context.store.sandboxes.get(slot.sandbox_id)
        await self._context.commit(
            Batch().put(row).log(logs.entry(slot.sandbox_id, "info", "Sandbox resumed"))
        )
        reached("resume.stored")
        slot.settle(row)
        if before is not None and before.layers != row.layers:
            work = self._context.layers.collect(before.layers)
            self._context.tasks.spawn(work, "sbx-collect")

    async def _back_to_paused(self, slot: Slot) -> None:
        """After a resume that failed: as it was, or on disk when its memory is gone already."""
        if slot.state is not State.RESUMING:
            return
        if slot.row.pause_mode == "full" and slot.placed is not None:
            await freeze(slot.placed)
        else:
            await self._end_processes(slot)
        slot.move(State.PAUSED)

    # End

    @metered("kill")
    async def end(self, slot: Slot, reason: Reason, detail: str = "") -> None:
        """End a sandbox whatever its state, and forget it."""
        if slot.state is not State.KILLING:
            slot.move(State.KILLING)
        self._context.expiry.cancel(slot.sandbox_id)
        reached("kill.decided")
        self._context.meters.sandbox_ended(reason)
        await self._end_processes(slot)
        reached("kill.ended")
        level, message = _ENDED[reason]
        fields = {"reason": detail} if detail else {}
        entry = logs.entry(slot.sandbox_id, level, message, **fields)
        try:
            await self._forget(slot, entry)
        except NoSpaceError:
            # The row cannot even be removed; the layer's space is about to come back.
            self._context.tasks.spawn(self._forget_later(slot, entry), "sbx-forget")
            return
        self._context.tasks.spawn(self._clean(slot.row), "sbx-clean")

    async def _forget(self, slot: Slot, entry: LogRow) -> None:
        context = self._context
        batch = Batch().remove(SandboxRow, slot.sandbox_id).log(entry)
        for request in context.store.requests:
            if request.sandbox_id == slot.sandbox_id:
                batch.remove(RequestRow, request.key)
        await context.commit(batch)
        reached("kill.stored")
        context.slots.remove(slot)
        context.history.forget(slot.sandbox_id)

    async def _forget_later(self, slot: Slot, entry: LogRow) -> None:
        await self._clean(slot.row)
        while True:
            try:
                return await self._forget(slot, entry)
            except NoSpaceError as error:
                _log.warning("sandbox %s is ended, its row is not: %s", slot.sandbox_id, error)
                await asyncio.sleep(_RETRY_DELAY)

    async def _clean(self, row: SandboxRow) -> None:
        try:
            await self._context.placement.remove(row.sandbox_id)
            reached("kill.cleaned")
            await self._context.layers.collect(row.layers)
        except (SbxError, OSError):
            _log.exception("the layer of sandbox %s could not be removed", row.sandbox_id)

    async def _end_processes(self, slot: Slot) -> None:
        guard, slot.guard = slot.guard, None
        if guard is not None and guard is not asyncio.current_task():
            guard.cancel()
        placed, slot.placed = slot.placed, None
        if placed is not None:
            await self._context.placement.end(placed)
        for hook in self._context.hooks.stopped:
            await hook(slot.sandbox_id)

    # What happens by itself; these take the lock themselves

    def on_expired(self, sandbox_id: str) -> None:
        """The end time of a sandbox has come."""
        self._context.tasks.spawn(self._expire(sandbox_id), f"sbx-expire-{sandbox_id}")

    async def _expire(self, sandbox_id: str) -> None:
        slot = self._context.slots.get(sandbox_id)
        if slot is None:
            return
        async with slot.lock:
            if slot.state is not State.RUNNING or slot.row.end_at > now():
                if slot.state is State.RUNNING:
                    self._context.expiry.schedule(sandbox_id, slot.row.end_at.timestamp())
                return
            reached("expiry.due")
            try:
                if slot.row.auto_pause:
                    memory = slot.row.auto_pause_memory
                    await self.pause(slot, memory=memory, why="Sandbox timed out and was paused")
                else:
                    await self.end(slot, "timeout")
            except (SbxError, OSError):
                _log.exception("sandbox %s could not be ended at its time", sandbox_id)
                if slot.state is State.RUNNING:
                    retry = now() + dt.timedelta(seconds=_RETRY_DELAY)
                    self._context.expiry.schedule(sandbox_id, retry.timestamp())

    async def _guard(self, slot: Slot, placed: Placed) -> None:
        """Wait for the death of the processes, then clean up after them."""
        why = await wait_dead(placed)
        if (kills := placed.cage.oom_kills() - slot.oom_kills) > 0:
            slot.oom_kills += kills
            self._context.meters.oom_kills.inc(kills)
        async with slot.lock:
            if slot.placed is not placed:
                return
            try:
                await self._bury(slot, why)
            except (SbxError, OSError):
                _log.exception("sandbox %s is lost and could not be removed", slot.sandbox_id)

    async def _bury(self, slot: Slot, why: str) -> None:
        if slot.state is State.PAUSED:
            await self.drop_memory(slot, why)
            return
        slot.move(State.LOST)
        await self.end(slot, "lost", why)

    async def drop_memory(self, slot: Slot, why: str) -> None:
        """End the processes of a paused sandbox; its files are kept."""
        await self._end_processes(slot)
        reached("memory.dropped")
        slot.row = replace(slot.row, pause_mode="filesystem", cage=None)
        message = "Memory of the paused sandbox lost, its files are kept"
        entry = logs.entry(slot.sandbox_id, "warn", message, reason=why)
        await self._context.commit(Batch().put(slot.row).log(entry))

    # Small things

    def volumes(self, row: SandboxRow) -> tuple:
        """Directories and mount points of a row's volumes; ``InvalidArgumentError``."""
        mounts = self._context.hooks.mounts
        return () if mounts is None or not row.volume_mounts else mounts(row.volume_mounts)

    @staticmethod
    def _placed(slot: Slot) -> Placed:
        if slot.placed is None:
            raise unknown(slot.sandbox_id)
        return slot.placed
