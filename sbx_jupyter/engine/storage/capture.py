"""Captures what a running sandbox has written as a new layer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.rows import now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import AbortedError, CanceledError, NotFoundError, SbxError, see
from sbx_jupyter.isolation.trees.copied_directories import CopiedDirectories

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.long_operations import Work
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.engine.sandboxes.supervisor import Supervisor
    from sbx_jupyter.engine.storage.flatten import Flattener

_log = logging.getLogger(__name__)

NOT_CAPTURED: Final = "processes, memory, open terminals and connections"
"""The parts of a sandbox that snapshots and forks leave out, as text for the logs."""

_MAX_LAYERS: Final = 60
"""A sandbox with more layers is captured only after some of them were merged."""

_LOG_SIZE_AFTER: Final = 1.0
"""Seconds of copying after which the size of the layer is measured and logged."""

_SLOW: Final = 1.0
"""Seconds of copying after which the engine says, once, how to have none."""


class CapturedLayer(NamedTuple):
    """A copy of the writable layer of a sandbox."""

    name: str
    size: int
    seconds: float
    frozen_seconds: float

    def log_fields(self) -> dict[str, str]:
        return {
            "bytes": str(self.size),
            "seconds": f"{self.seconds:.3f}",
            "stopped_ms": f"{self.frozen_seconds * 1000:.1f}",
        }


class Capture:
    """Copies the writable layers of running sandboxes."""

    def __init__(
        self,
        context: Context,
        flattener: Flattener,
        supervisor: Supervisor,
        *,
        shares_blocks: bool,
    ) -> None:
        """``shares_blocks``: whether files of the data directory can share their content."""
        self._shares_blocks = shares_blocks
        self._has_advised = False
        self._context = context
        self._flattener = flattener
        self._layers = context.layers
        self._supervisor = supervisor

    async def capture(self, slot: Slot, layer: str, work: Work) -> CapturedLayer:
        """Copy the writable layer of a running sandbox into the layer of this name.

        The sandbox is frozen only while the second pass copies what changed during the first.
        Raises ``AbortedError`` when the operation is cancelled.
        """
        if len(self._layers.shorten(slot.row.layers)) >= _MAX_LAYERS:
            await self._flattener.flatten(slot.row.layers)
        if await self._layers.has_subvolume(slot.sandbox_id):
            return await self._take_subvolume(slot, layer, work)
        measuring = asyncio.create_task(self._log_size(slot.sandbox_id, work))
        try:
            stopped = await self._copy(slot, layer, work)
        except CanceledError:
            entry = logs.entry(slot.sandbox_id, "info", f"The {work.kind} was cancelled")
            await self._context.commit(Batch().log(entry))
            raise AbortedError(f"the {work.kind} of {slot.sandbox_id} was cancelled") from None
        finally:
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)
        work.phase = "storing"
        await self._layers.sync(layer)
        captured = CapturedLayer(
            layer, work.progress.done, (now() - work.started_at).total_seconds(), stopped
        )
        await self._advise(slot.sandbox_id, work, captured)
        return captured

    async def _advise(self, sandbox_id: str, work: Work, captured: CapturedLayer) -> None:
        """Log how the copy can be avoided, the first time that one takes long."""
        if self._shares_blocks or self._has_advised or captured.seconds <= _SLOW:
            return
        self._has_advised = True
        message = (
            f"The {work.kind} took {captured.seconds:.1f} s, because this disk cannot share data"
            " between files and everything was copied. `jupyter sbx storage create --size 50G`"
            f" makes a disk that can, and moves the data there{see('storage')}"
        )
        fields = {"bytes": str(captured.size), "operation_id": work.operation_id}
        try:
            await self._context.commit(
                Batch().log(logs.entry(sandbox_id, "info", message, **fields))
            )
        except SbxError:
            _log.exception("not logged: %s", message, extra={"sandbox_id": sandbox_id})

    async def _take_subvolume(self, slot: Slot, layer: str, work: Work) -> CapturedLayer:
        """Take a snapshot of the subvolume of a sandbox: instant, whatever its size."""
        work.phase = "storing"
        # A snapshot syncs the files first. Syncing here does most of that before the freeze.
        await self._layers.sync_writable(slot.sandbox_id)
        work.phase = "finishing"
        async with self._frozen(slot):
            since = time.monotonic()
            reached("snapshot.frozen")
            taken = await self._layers.take_subvolume(slot.sandbox_id, layer)
            reached("snapshot.copied")
        stopped = time.monotonic() - since
        return CapturedLayer(taken, 0, (now() - work.started_at).total_seconds(), stopped)

    async def _copy(self, slot: Slot, layer: str, work: Work) -> float:
        """Copy twice, the second time while frozen; return how long it was frozen, in seconds."""
        with contextlib.closing(CopiedDirectories()) as copied:
            clock = _Clock()
            if not self._shares_blocks:
                # Once its pages are written back, what a program changes through a mapping counts
                # as a change from then on. Shared blocks are written back when they are shared.
                await self._layers.sync_writable(slot.sandbox_id)
            await self._layers.copy(
                slot.sandbox_id, layer, still=False, copied=copied, progress=work.progress
            )
            work.phase = "finishing"
            async with self._frozen(slot):
                since = time.monotonic()
                reached("snapshot.frozen")
                began = clock.began_ns()
                await self._layers.copy(slot.sandbox_id, layer, since_ns=began, copied=copied)
                reached("snapshot.copied")
        return time.monotonic() - since

    async def _log_size(self, sandbox_id: str, work: Work) -> None:
        """Measure and log how much there is to copy, if the copy takes long."""
        await asyncio.sleep(_LOG_SIZE_AFTER)
        try:
            work.total_bytes = await self._layers.measure(sandbox_id)
            fields = {"bytes": str(work.total_bytes), "operation_id": work.operation_id}
            message = f"Copying the files of the sandbox for a {work.kind}"
            entry = logs.entry(sandbox_id, "info", message, **fields)
            await self._context.commit(Batch().log(entry))
        except SbxError as error:
            _log.debug("not measured: %s", error, extra={"sandbox_id": sandbox_id})

    @contextlib.asynccontextmanager
    async def _frozen(self, slot: Slot) -> AsyncGenerator[None]:
        """Freeze the processes of a running sandbox until the context ends."""
        if not _has_processes(slot):
            raise NotFoundError("The sandbox was not found")
        slot.change_state(State.SNAPSHOTTING)
        try:
            await self._supervisor.freeze(slot)
            try:
                yield
            finally:
                if _has_processes(slot):
                    await self._supervisor.thaw(slot)
        finally:
            if slot.state is State.SNAPSHOTTING:
                slot.change_state(State.RUNNING)


class _Clock:
    """When something began, by the clock that change times are of, although somebody sets it."""

    def __init__(self) -> None:
        self._began = time.time_ns()
        self._passed = time.monotonic_ns()

    def began_ns(self) -> int:
        """No change since then has an earlier time, where the clock was set once."""
        set_back = time.monotonic_ns() - self._passed - (time.time_ns() - self._began)
        return self._began - max(0, set_back)


def _has_processes(slot: Slot) -> bool:
    return slot.placed is not None
