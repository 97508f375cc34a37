"""Watches over the limits that the kernel does not hold here: disk, and memory without control
groups.

It looks at each sandbox once a second, and five times a second while one is near a limit or on its
way, so a program can go over a limit for about that long. Who writes to a layer that is too large
is killed, and the file interface refuses to write there; who is largest in a sandbox that has too
much memory is killed. Both are said in the sandbox's log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.holding import LONGEST_PAUSE, DiskHold, MemoryHold
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.holding import Hold
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.isolation.fence import Fence

_log = logging.getLogger(__name__)

_SHORTEST_PAUSE: Final = 0.2
_AT_ONCE: Final = 2
_SHARE_OF_TIME: Final = 0.1
"""The share of the time that soon looking again at one sandbox may take."""


class Watchdog:
    """Looks after all running sandboxes, after each on its own: a slow one keeps no other waiting
    but those that wait for the same kind of look.
    """

    def __init__(self, context: Context, fence: Fence) -> None:
        self._context = context
        self._fence = fence
        self._guards: dict[str, tuple[Slot, tuple[asyncio.Task[None], ...]]] = {}
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
        ending = [task for name in list(self._guards) for task in self._dismiss(name)]
        await asyncio.gather(*ending, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            running = {s.sandbox_id: s for s in self._context.slots if s.state is State.RUNNING}
            for name, (slot, tasks) in list(self._guards.items()):
                if running.get(name) is not slot or any(map(_is_over, tasks)):
                    self._dismiss(name)
            for name, slot in running.items():
                if name not in self._guards:
                    self._guards[name] = slot, self._watch(slot)
            await asyncio.sleep(LONGEST_PAUSE)

    def _watch(self, slot: Slot) -> tuple[asyncio.Task[None], ...]:
        memory = self._look_after(slot, MemoryHold(self._context, slot), self._memory_room)
        disk = self._look_after(slot, DiskHold(self._context, slot, self._fence), self._disk_room)
        name = f"sbx-watchdog-{slot.sandbox_id}"
        return asyncio.create_task(memory, name=name), asyncio.create_task(disk, name=name)

    def _dismiss(self, sandbox_id: str) -> tuple[asyncio.Task[None], ...]:
        _, tasks = self._guards.pop(sandbox_id)
        for task in tasks:
            task.cancel()
        return tasks

    async def _look_after(self, slot: Slot, hold: Hold, room: asyncio.Semaphore) -> None:
        """Look until cancelled; what nobody expected ends this, and a new one takes its place."""
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
                    if await hold.look(placed):
                        took = time.monotonic() - started
                        pause = min(max(took / _SHARE_OF_TIME, _SHORTEST_PAUSE), LONGEST_PAUSE)
            except (SbxError, OSError) as error:
                _log.debug("not looked after: %s", error, extra={"sandbox_id": slot.sandbox_id})


def _is_over(task: asyncio.Task[None]) -> bool:
    """Whether a guard ended by itself, which is told once."""
    if not task.done():
        return False
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s stopped and is replaced", task.get_name(), exc_info=error)
    return True
