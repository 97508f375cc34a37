"""Pauses and resumes sandboxes, and acts when one dies or reaches its end time."""

from __future__ import annotations

import datetime as dt
import logging
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from sbx_jupyter.engine.sandboxes.lifecycle import State, unknown_sandbox_error
from sbx_jupyter.engine.sandboxes.placement import (
    Placed,
    Plan,
    connected_sandbox,
    limits_for,
    plan_for,
    settled_files,
    wait_dead,
)
from sbx_jupyter.engine.sandboxes.startup import run_start_command
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.rows import SandboxRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.engine.watch.meters import metered
from sbx_jupyter.errors import SbxError, UnimplementedError
from sbx_jupyter.protocol import agent as ops

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.removal import Removal
    from sbx_jupyter.engine.sandboxes.slots import Slot

_log = logging.getLogger(__name__)

_RETRY_DELAY: Final = 1.0


class Supervisor:
    """Pauses and resumes sandboxes, and ends those that die or time out.

    Callers hold the lock of the slot that they pass, unless noted otherwise.
    """

    def __init__(self, context: Context, removal: Removal) -> None:
        self._context = context
        self._removal = removal

    # Beginning

    async def begin(self, slot: Slot) -> None:
        """Call the hooks of a sandbox with new processes, watch it, and run its start command.

        Raises what ``run_start_command`` raises.
        """
        await self._call_started_hooks(slot)
        self.watch(slot)
        row = slot.row
        await run_start_command(
            row.start_command, row.ready_command, connected_sandbox(self._placed(slot))
        )

    async def _call_started_hooks(self, slot: Slot) -> None:
        sandbox = connected_sandbox(self._placed(slot))
        for hook in self._context.hooks.started:
            await hook(slot.row, sandbox)

    def watch(self, slot: Slot) -> None:
        """Start to react to the death of the processes and, while it runs, to the end time."""
        if slot.placed is not None and slot.death_task is None:
            slot.death_task = self._context.death_tasks.spawn(
                self._await_death(slot, slot.placed), f"sbx-death-{slot.sandbox_id}"
            )
        if slot.state is State.RUNNING:
            self._context.expiry.schedule(slot.sandbox_id, slot.row.end_at.timestamp())

    async def set_end(self, slot: Slot, end_at: dt.datetime) -> None:
        """Move the end time of a running sandbox."""
        row = replace(slot.row, end_at=end_at)
        await self._context.commit(Batch().put(row))
        reached("timeout.stored")
        slot.set_stored_row(row)
        self._context.expiry.schedule(slot.sandbox_id, end_at.timestamp())

    # Pause

    @metered("pause")
    async def pause(self, slot: Slot, *, memory: bool, why: str = "Sandbox paused") -> None:
        """Pause a running sandbox, with its memory or with its files only.

        ``why`` is the text of the log entry. After a failure, the sandbox runs again, or is paused
        with its files only if its processes have ended.
        """
        slot.change_state(State.PAUSING)
        self._context.expiry.cancel(slot.sandbox_id)
        try:
            if memory:
                await self._pause_full(slot, why)
            else:
                await self._pause_filesystem(slot, why)
        except BaseException:
            if slot.placed is not None:
                slot.change_state(State.RUNNING)
                self.watch(slot)
            else:
                # The processes have ended. The next engine finishes the stored "pausing" row too.
                slot.change_state(State.PAUSED)
                slot.row = replace(slot.row, pause_mode="filesystem", cage=None, end_at=now())
            raise

    async def _pause_full(self, slot: Slot, why: str) -> None:
        placed = self._placed(slot)
        await self.freeze(slot)
        reached("pause.frozen")
        try:
            await self._commit_paused(slot, "full", why)
        except BaseException:
            await self.thaw(slot)
            raise
        if placed.sandbox is not None:
            placed.sandbox.disconnect()
        for hook in self._context.hooks.paused:
            await hook(slot.sandbox_id)

    async def _pause_filesystem(self, slot: Slot, why: str) -> None:
        # The row is stored before the processes end: if the engine crashes in between, the next one
        # finishes the pause instead of treating the sandbox as lost.
        await self._context.commit(Batch().put(slot.row))
        reached("pause.marked")
        with self._context.operations.begin(slot.sandbox_id, "pause") as work:
            work.phase = "finishing"
            async with settled_files(self._placed(slot)):
                await self._removal.end_processes(slot)
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
        slot.set_stored_row(row)

    # Resume

    @metered("resume")
    async def resume(
        self, slot: Slot, timeout: int, *, memory: bool = True, auto_pause: bool | None = None
    ) -> None:
        """Resume a paused sandbox for ``timeout`` seconds; without memory it boots anew.

        ``auto_pause`` replaces the sandbox's setting once it is resumed.
        Raises ``ResourceExhaustedError`` when there are too many sandboxes. After a failure the
        sandbox is paused again.
        """
        self._context.slots.check_room(0 if slot.occupies else 1)
        if not slot.occupies:
            context = self._context
            context.config.quotas.check_sandbox(slot.row, context.slots, context.store.volumes)
        slot.change_state(State.RESUMING)
        try:
            if slot.row.pause_mode == "full" and memory and slot.placed is not None:
                await self.thaw(slot)
                reached("resume.thawed")
            else:
                await self._boot(slot)
                reached("resume.booted")
            await self._commit_resumed(slot, timeout, auto_pause)
        except BaseException:
            await self._back_to_paused(slot)
            raise
        self.watch(slot)

    async def freeze(self, slot: Slot) -> None:
        """Freeze all processes, by the cgroup freezer or, without one, by the agent."""
        placed = self._placed(slot)
        async with settled_files(placed):
            try:
                await placed.cage.freeze()
            except UnimplementedError:
                await connected_sandbox(placed).call(ops.FREEZE, frozen=True)

    async def thaw(self, slot: Slot) -> None:
        """Thaw frozen processes, and connect to the agent of an adopted sandbox.

        Has no effect on processes that are not frozen.
        """
        placed = self._placed(slot)
        is_by_agent = False
        try:
            await placed.cage.thaw()
        except UnimplementedError:
            is_by_agent = True
        is_new = placed.sandbox is None
        if is_new:
            await self._open(slot, placed)
            if (waiting := slot.death_task) is not None:  # it knows nothing of the new channel
                slot.death_task = None
                waiting.cancel()
        if is_by_agent:
            await connected_sandbox(placed).call(ops.FREEZE, frozen=False)
        if is_new:
            await self._call_started_hooks(slot)
            return
        connected_sandbox(placed).resume()
        for hook in self._context.hooks.resumed:
            await hook(slot.sandbox_id)

    async def refreeze(self, slot: Slot) -> None:
        """Freeze an adopted sandbox; has no effect on one that is frozen already."""
        placed = self._placed(slot)
        try:
            await placed.cage.freeze()
        except UnimplementedError:
            await self._open(slot, placed)
            await self.freeze(slot)

    async def _open(self, slot: Slot, placed: Placed) -> None:
        """Connect to the agent of an adopted sandbox."""
        context = self._context
        limits = limits_for(slot.row, context.config.default_limits)
        await context.placement.open(placed, slot.row, limits, context.envs_of(slot.row))

    async def _boot(self, slot: Slot) -> None:
        """Start new processes on the sandbox's existing writable layer."""
        await self._removal.end_processes(slot)
        reached("resume.booting")
        context = self._context
        # Use the merged layer in place of layers that were merged since the pause.
        layers = context.layers.shorten(slot.row.layers)
        slot.row = replace(slot.row, pause_mode="filesystem", cage=None, layers=layers)
        slot.placed = await context.placement.place(self.plan(slot.row), fresh=False)
        await self.begin(slot)

    async def _commit_resumed(self, slot: Slot, timeout: int, auto_pause: bool | None) -> None:
        at = now()
        row = replace(
            slot.row,
            state=State.RUNNING,
            pause_mode=None,
            window_start=at,
            end_at=at + dt.timedelta(seconds=timeout),
            cage=self._placed(slot).cage.to_state(),
            boot_id=self._context.boot_id,
            auto_pause=slot.row.auto_pause if auto_pause is None else auto_pause,
        )
        before = self._context.store.sandboxes.get(slot.sandbox_id)
        await self._context.commit(
            Batch().put(row).log(logs.entry(slot.sandbox_id, "info", "Sandbox resumed"))
        )
        reached("resume.stored")
        slot.set_stored_row(row)
        if before is not None and before.layers != row.layers:
            work = self._context.layers.collect(before.layers)
            self._context.tasks.spawn(work, "sbx-collect")

    async def _back_to_paused(self, slot: Slot) -> None:
        """Undo a failed resume; without its memory, the sandbox is paused with its files only."""
        if slot.state is not State.RESUMING:
            return
        if slot.row.pause_mode == "full" and slot.placed is not None:
            await self.freeze(slot)
            self.watch(slot)
        else:
            await self._removal.end_processes(slot)
        slot.change_state(State.PAUSED)

    # Death and end time. Expiry and the death task acquire the lock themselves.

    def on_expired(self, sandbox_id: str) -> None:
        """Pause or end a sandbox whose end time has come."""
        self._context.tasks.spawn(self._expire(sandbox_id), f"sbx-expire-{sandbox_id}")

    async def _expire(self, sandbox_id: str) -> None:
        slot = self._context.slots.get(sandbox_id)
        if slot is None:
            return
        async with slot.lock:
            if slot.state is not State.RUNNING or self._context.expiry.is_scheduled(sandbox_id):
                return  # its end was moved meanwhile
            reached("expiry.due")
            try:
                if slot.row.auto_pause:
                    memory = slot.row.auto_pause_memory
                    await self.pause(slot, memory=memory, why="Sandbox timed out and was paused")
                else:
                    await self._removal.end(slot, "timeout")
            except (SbxError, OSError):
                _log.exception("sandbox %s could not be ended at its end time", sandbox_id)
                if slot.state is State.RUNNING:
                    retry = now() + dt.timedelta(seconds=_RETRY_DELAY)
                    self._context.expiry.schedule(sandbox_id, retry.timestamp())

    async def _await_death(self, slot: Slot, placed: Placed) -> None:
        """Wait for the death of the processes, then keep the files.

        A channel that closes before them is opened again.
        """
        while (end := await wait_dead(placed)).is_channel_only:
            if await self._reconnect(slot, placed):
                continue
            break
        why = end.why
        if (kills := placed.cage.oom_kills() - slot.oom_kills) > 0:
            slot.oom_kills += kills
            self._context.meters.oom_kills.inc(kills)
        async with slot.lock:
            if slot.placed is not placed:
                return
            try:
                await self._end_dead(slot, why)
            except (SbxError, OSError):
                _log.exception("sandbox %s is lost, which could not be stored", slot.sandbox_id)

    async def _reconnect(self, slot: Slot, placed: Placed) -> bool:
        """Connect to the agent again, as an engine that adopts it; true if that is done.

        Calls under way have ended with ``UnavailableError``; the processes go on.
        """
        async with slot.lock:
            if slot.placed is not placed or placed.sandbox is None:
                return False
            placed.sandbox = None
            if slot.state is State.PAUSED:
                return True  # its resume connects
            try:
                for hook in self._context.hooks.stopped:
                    await hook(slot.sandbox_id)
                await self._open(slot, placed)
                await self._call_started_hooks(slot)
            except (SbxError, OSError):
                _log.exception("the agent of sandbox %s does not answer", slot.sandbox_id)
                return False
            _log.warning("connected again", extra={"sandbox_id": slot.sandbox_id})
            return True

    async def _end_dead(self, slot: Slot, why: str) -> None:
        if slot.state is State.PAUSED:
            await self.drop_memory(slot, why)
        else:
            await self.keep_files(slot, why)

    async def keep_files(self, slot: Slot, why: str) -> None:
        """Make a sandbox whose processes are lost one that is paused on disk; its log says why."""
        if slot.state is not State.LOST:
            slot.change_state(State.LOST)
        self._context.expiry.cancel(slot.sandbox_id)
        self._context.meters.sandbox_ended("lost")
        await self._removal.end_processes(slot)
        row = replace(
            slot.row, state=State.PAUSED, pause_mode="filesystem", end_at=now(), cage=None
        )
        message = "Sandbox lost, its files are kept"
        entry = logs.entry(slot.sandbox_id, "error", message, reason=why)
        try:
            await self._context.layers.sync_writable(slot.sandbox_id)
            await self._context.commit(Batch().put(row).log(entry))
        finally:
            # If that failed, the next engine finds no processes and comes to the same.
            slot.set_stored_row(row)

    async def drop_memory(self, slot: Slot, why: str) -> None:
        """End the processes of a paused sandbox, keep its files, and log ``why``."""
        await self._removal.end_processes(slot)
        reached("memory.dropped")
        slot.row = replace(slot.row, pause_mode="filesystem", cage=None)
        message = "Memory of the paused sandbox lost, its files are kept"
        entry = logs.entry(slot.sandbox_id, "warn", message, reason=why)
        await self._context.commit(Batch().put(slot.row).log(entry))

    def plan(self, row: SandboxRow) -> Plan:
        """The plan of a stored sandbox; raises ``InvalidArgumentError`` for its volume mounts."""
        context = self._context
        limits = limits_for(row, context.config.default_limits)
        volumes: tuple[tuple[Path, str], ...] = ()
        if row.volume_mounts and context.hooks.mounts is not None:
            volumes = context.hooks.mounts(row.volume_mounts, row.owner)
        return plan_for(row, context.data_dir, limits, context.envs_of(row), volumes)

    @staticmethod
    def _placed(slot: Slot) -> Placed:
        if slot.placed is None:
            raise unknown_sandbox_error(slot.sandbox_id)
        return slot.placed
