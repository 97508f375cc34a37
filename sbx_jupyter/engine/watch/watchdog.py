"""Checks every running sandbox against the limits that the kernel does not enforce here.

Each sandbox is checked once a second, and five times a second while it is near a limit or growing
fast, so a program can exceed a limit for about that long.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.watch.disk import DiskEnforcer
from sbx_jupyter.engine.watch.limits import LONGEST_PAUSE
from sbx_jupyter.engine.watch.memory import MemoryEnforcer
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.engine.watch.limits import LimitEnforcer
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence

_log = logging.getLogger(__name__)

_SHORTEST_PAUSE: Final = 0.2
_AT_ONCE: Final = 2
_SHARE_OF_CHECKING: Final = 0.1
"""The share of the time that frequent checks of one sandbox may take."""


class Watchdog:
    """Checks all running sandboxes, each in tasks of its own.

    At most two checks of a kind run at a time.
    """

    def __init__(self, context: Context, fence: AnyFence) -> None:
        self._context = context
        self._fence = fence
        self._watched: dict[str, tuple[Slot, tuple[asyncio.Task[None], ...]]] = {}
        self._memory_room = asyncio.Semaphore(_AT_ONCE)
        self._disk_room = asyncio.Semaphore(_AT_ONCE)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sbx-watchdog")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        ending = [task for name in list(self._watched) for task in self._unwatch(name)]
        await asyncio.gather(*ending, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            running = {s.sandbox_id: s for s in self._context.slots if s.state is State.RUNNING}
            for name, (slot, tasks) in list(self._watched.items()):
                if running.get(name) is not slot or any(map(_has_ended, tasks)):
                    self._unwatch(name)
            for name, slot in running.items():
                if name not in self._watched:
                    self._watched[name] = slot, self._watch(slot)
            await asyncio.sleep(LONGEST_PAUSE)

    def _watch(self, slot: Slot) -> tuple[asyncio.Task[None], ...]:
        memory = self._keep_checking(
            slot, MemoryEnforcer(self._context, slot, self._fence), self._memory_room
        )
        disk = self._keep_checking(
            slot, DiskEnforcer(self._context, slot, self._fence), self._disk_room
        )
        name = f"sbx-watchdog-{slot.sandbox_id}"
        return asyncio.create_task(memory, name=name), asyncio.create_task(disk, name=name)

    def _unwatch(self, sandbox_id: str) -> tuple[asyncio.Task[None], ...]:
        _, tasks = self._watched.pop(sandbox_id)
        for task in tasks:
            task.cancel()
        return tasks

    async def _keep_checking(
        self, slot: Slot, enforcer: LimitEnforcer, room: asyncio.Semaphore
    ) -> None:
        """Check until cancelled. After an unexpected error ``_run`` starts a new task."""
        pause = 0.0
        while True:
            await asyncio.sleep(pause)
            pause = LONGEST_PAUSE
            placed = slot.placed
            if placed is None:
                continue
            try:
                async with room:
                    started = time.monotonic()
                    if await enforcer.check(placed):
                        took = time.monotonic() - started
                        pause = min(max(took / _SHARE_OF_CHECKING, _SHORTEST_PAUSE), LONGEST_PAUSE)
            except (SbxError, OSError) as error:
                _log.debug("not checked: %s", error, extra={"sandbox_id": slot.sandbox_id})


def _has_ended(task: asyncio.Task[None]) -> bool:
    """Whether a task ended by itself; its error is logged."""
    if not task.done():
        return False
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s stopped and is replaced", task.get_name(), exc_info=error)
    return True
