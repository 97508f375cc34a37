"""Code shared by the enforcers of limits in ``memory.py`` and ``disk.py``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.isolation.resource_use import processes

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.placement import Placed
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.isolation.fence import Cage

LONGEST_PAUSE: Final = 1.0
"""Seconds between two checks of a sandbox that is well below its limits."""

LONGEST_REST: Final = 3600.0
"""Seconds without a check of a sandbox in which no process runs. Nothing is known that would need
one: a process that writes a file or takes memory uses the processor."""

MIB: Final = 1 << 20
MAX_KILLED: Final = 20
"""Processes that are killed as writers in one check, and that are named in one log entry."""


class LimitEnforcer(Protocol):
    """Keeps one sandbox below one limit."""

    async def check(self, placed: Placed) -> bool:
        """Kill what exceeds the limit; true when the next check should come soon.

        Raises ``SbxError`` or ``OSError`` when the use could not be measured.
        """
        ...

    def rest(self, placed: Placed, work_ns: int | None) -> float:
        """Seconds for which no check is needed after the last one, unless a process runs.

        ``work_ns`` is the sandbox's processor time from before that check; ``None`` where it is
        not counted, so that checks must go on.
        """
        ...

    def is_called_for(self, tcp_bytes: int) -> bool:
        """Whether the memory of TCP, which needs no process to grow, calls for a check."""
        ...


class GrowthTracker:
    """Tells whether a sandbox may reach a limit soon."""

    def __init__(self) -> None:
        self._last: float | None = None

    def is_fast(self, used: float, limit: float) -> bool:
        """Whether more than half is used, or a sixteenth more than at the last call."""
        last, self._last = self._last, used
        return used > limit / 2 or (last is not None and used - last > limit / 16)


Activity = frozenset[tuple[int, int]]
"""The processor ticks of each process; the same twice mean that no process ran in between."""


def read_activity(cage: Cage) -> Activity:
    """Read the processor ticks so far of each process of a sandbox; blocking."""
    return frozenset((pid, processes.ticks(pid)) for pid in cage.members())


def read_free_bytes(cage: Cage) -> int:
    """Free space of the disk with the writable layer; blocking. Raises ``OSError``."""
    disk = os.statvfs(cage.writable)
    return disk.f_bavail * disk.f_frsize


async def log_kill(context: Context, slot: Slot, text: str, **fields: str) -> None:
    """Write to the log of a sandbox what was done to enforce a limit."""
    entry = logs.entry(slot.sandbox_id, "warn", text, **fields)
    await context.commit(Batch().log(entry))
