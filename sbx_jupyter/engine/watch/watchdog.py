"""Checks every running sandbox against the limits that the kernel does not enforce here.

Each sandbox in which a process runs is checked once a second, and five times a second while it is
near a limit or growing fast, so a program can exceed a limit for about that long. Where control
groups count processor time, one look a second finds out for all others that nothing runs in them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.watch.activity import ActivityReader
from sbx_jupyter.engine.watch.disk_limit import DiskEnforcer
from sbx_jupyter.engine.watch.limits import LONGEST_PAUSE
from sbx_jupyter.engine.watch.memory import MemoryEnforcer
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.placement import Placed
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.engine.watch.activity import Activity
    from sbx_jupyter.engine.watch.limits import LimitEnforcer
    from sbx_jupyter.isolation.cage import Cage
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence

_log = logging.getLogger(__name__)

_SHORTEST_PAUSE: Final = 0.2
_AT_ONCE: Final = 2
_SHARE_OF_CHECKING: Final = 0.1
"""The share of the time that frequent checks of one sandbox may take."""


class _Rest(NamedTuple):
    """The state in which the checks came to rest; they go on when it changes, or at ``until``."""

    cage: Cage
    work_ns: int | None
    """The sandbox's processor time before the last check."""
    until: float
    """End of the rest, by the monotonic clock."""


class RepeatedCheck:
    """Checks one sandbox against one limit again and again, while a process of it runs."""

    def __init__(
        self,
        slot: Slot,
        enforcer: LimitEnforcer,
        room: asyncio.Semaphore,
        on_rest: Callable[[], None],
    ) -> None:
        """``room`` bounds the checks of all sandboxes at a time.

        ``on_rest`` is called whenever the checks stop because nothing runs.
        """
        self._slot = slot
        self._enforcer = enforcer
        self._room = room
        self._on_rest = on_rest
        self._task: asyncio.Task[None] | None = None
        self._rest: _Rest | None = None

    def start(self) -> None:
        self._rest = None
        name = f"sbx-watchdog-{self._slot.sandbox_id}"
        self._task = asyncio.create_task(self._keep_checking(), name=name)

    def cancel(self) -> asyncio.Task[None] | None:
        """Stop; returns the task to wait for."""
        if self._task is not None:
            self._task.cancel()
        return self._task

    def has_failed(self) -> bool:
        """Whether it stopped by an unexpected error, which is logged."""
        if self._rest is not None:
            return False
        task = self._task
        if task is None or not task.done():
            return False
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s stopped and is replaced", task.get_name(), exc_info=error)
        return True

    @property
    def is_resting(self) -> bool:
        return self._rest is not None

    @property
    def rests_until(self) -> float:
        """End of a rest at the latest, by the monotonic clock; infinite if it does not rest."""
        return math.inf if self._rest is None else self._rest.until

    def wake(self, placed: Placed, activity: Activity) -> None:
        """Go on if it rests and the sandbox is not as it was."""
        rest = self._rest
        if rest is None:
            return
        is_same = placed.cage is rest.cage and activity.work_ns == rest.work_ns
        is_quiet = is_same and not self._enforcer.is_called_for(activity.tcp_bytes)
        if not is_quiet or time.monotonic() >= rest.until:
            self.start()

    async def _keep_checking(self) -> None:
        pause = 0.0
        while self._rest is None:
            await asyncio.sleep(pause)
            pause = LONGEST_PAUSE
            placed = self._slot.placed
            if placed is None:
                continue
            try:
                work_ns = placed.cage.work_ns()
                async with self._room:
                    pause = await self._check(placed)
            except (SbxError, OSError) as error:
                _log.debug("not checked: %s", error, extra={"sandbox_id": self._slot.sandbox_id})
                continue
            if pause == LONGEST_PAUSE and (seconds := self._enforcer.rest(placed, work_ns)) > 0:
                self._rest = _Rest(placed.cage, work_ns, time.monotonic() + seconds)
                self._on_rest()

    async def _check(self, placed: Placed) -> float:
        """Check once; gives the seconds until the next check."""
        started = time.monotonic()
        if not await self._enforcer.check(placed):
            return LONGEST_PAUSE
        took = time.monotonic() - started
        return min(max(took / _SHARE_OF_CHECKING, _SHORTEST_PAUSE), LONGEST_PAUSE)


class Watchdog:
    """Checks all running sandboxes, each in tasks of its own while processes of it run.

    At most two checks of a kind run at a time.
    """

    def __init__(self, context: Context, fence: AnyFence) -> None:
        self._context = context
        self._fence = fence
        self._watched: dict[str, tuple[Slot, tuple[RepeatedCheck, RepeatedCheck]]] = {}
        self._activity = ActivityReader()
        self._has_new_rest = False
        self._rests_until = math.inf
        """The end of the first rest, of those that were looked at."""
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
            # Plain names: with a thousand sandboxes, a generator for each is half of the time.
            for name, (slot, (memory, disk)) in list(self._watched.items()):
                if running.get(name) is not slot or memory.has_failed() or disk.has_failed():
                    self._unwatch(name)
            for name, slot in running.items():
                if name not in self._watched:
                    self._watched[name] = slot, self._watch(slot)
            await self._wake()
            await asyncio.sleep(LONGEST_PAUSE)

    async def _wake(self) -> None:
        """Go on with the checks of sandboxes in which something ran."""
        is_known = not self._has_new_rest and time.monotonic() < self._rests_until
        if is_known and await asyncio.to_thread(self._activity.are_still):
            return
        self._has_new_rest = False
        resting = [
            (placed, checks)
            for slot, checks in self._watched.values()
            if (placed := slot.placed) is not None and any(check.is_resting for check in checks)
        ]
        self._rests_until = math.inf
        if not resting:
            return
        activity = await asyncio.to_thread(
            self._activity.read, [placed.cage for placed, _ in resting]
        )
        for placed, checks in resting:
            for check in checks:
                check.wake(placed, activity[placed.cage])
                self._rests_until = min(self._rests_until, check.rests_until)

    def _note_rest(self) -> None:
        self._has_new_rest = True

    def _watch(self, slot: Slot) -> tuple[RepeatedCheck, RepeatedCheck]:
        memory = MemoryEnforcer(self._context, slot, self._fence)
        disk = DiskEnforcer(self._context, slot, self._fence)
        checks = (
            RepeatedCheck(slot, memory, self._memory_room, self._note_rest),
            RepeatedCheck(slot, disk, self._disk_room, self._note_rest),
        )
        for check in checks:
            check.start()
        return checks

    def _unwatch(self, sandbox_id: str) -> list[asyncio.Task[None]]:
        _, checks = self._watched.pop(sandbox_id)
        return [task for check in checks if (task := check.cancel()) is not None]
