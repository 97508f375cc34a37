"""Holds one sandbox to its number of processes, where the kernel counts only those of the id.

It looks ten times a second while programs run, and only then at all of them when so many processes
were made on this machine since the last time that there could be too many. Asking before each fork
would be exact, but a call that waits to be answered can be interrupted by a signal, and no program
expects that of a fork.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sbx_jupyter.isolation.confined import descendants

LOOK_INTERVAL: Final = 0.1
_LONGEST_TRUST: Final = 1.0
"""Seconds after which everybody is counted, whatever the number of new processes says."""
_ROUNDS: Final = 50
_PAUSE: Final = 0.001


@dataclass(frozen=True, slots=True)
class _Member:
    pid: int
    session: int
    start: int
    tasks: int


class Headcount:
    """The processes and threads below this process, its agent included."""

    def __init__(self, limit: int) -> None:
        """0 is no limit."""
        self._limit = limit
        self._count = 0
        self._made = 0
        self._counted_at = float("-inf")
        self._load = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)

    @property
    def holds(self) -> bool:
        """Whether there is a limit to look after."""
        return self._limit > 0

    def has_room(self) -> bool:
        """Whether there may be one more than there are."""
        return not self.holds or self._recount() <= self._limit

    def cut(self) -> None:
        """If there are too many, end the session that has most of them, or else the youngest.

        What is ended goes on forking until it is, so this goes on until there are few enough.
        """
        if not self.holds or self._recount() <= self._limit:
            return
        ended: set[tuple[int, int]] = set()
        for _ in range(_ROUNDS):
            members = [member for member in _members() if (member.pid, member.start) not in ended]
            if sum(member.tasks for member in members) <= self._limit:
                return
            for member in _to_end(members):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
                ended.add((member.pid, member.start))
            time.sleep(_PAUSE)

    def _recount(self) -> int:
        """How many there are at most."""
        now, last = time.monotonic(), self._last_made()
        since = last - self._made
        trusted = now - self._counted_at < _LONGEST_TRUST
        if not trusted or since < 0 or self._count + since > self._limit:
            self._count, since = descendants.count_tasks(os.getpid()), 0
            self._made, self._counted_at = last, now
        return self._count + since

    def _last_made(self) -> int:
        """The number that the kernel gave to the latest process or thread."""
        return int(os.pread(self._load, 256, 0).split()[-1])


def _members() -> list[_Member]:
    """Every program below this process; not the agent and its workers, which are of our session."""
    own = os.getsid(0)
    found: list[_Member] = []
    for pid in descendants.descendants(os.getpid()):
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            fields = text.rpartition(")")[2].split()
            if int(fields[3]) != own:
                found.append(_Member(pid, int(fields[3]), int(fields[19]), int(fields[17])))
    return found


def _to_end(members: list[_Member]) -> list[_Member]:
    sizes: Counter[int] = Counter()
    for member in members:
        sizes[member.session] += member.tasks
    (session, size), *_ = sizes.most_common(1)
    if 2 * size >= sizes.total():
        return [member for member in members if member.session == session]
    youngest = sorted(members, key=lambda member: member.start, reverse=True)
    return youngest[: len(youngest) // 2 + 1]
