"""Limits the processes of one sandbox where the kernel counts those of all sandboxes together.

It checks ten times a second while programs run. It counts the processes one by one only when the
machine has started so many since the last count that the limit may be exceeded. Checking before
each fork would be exact, but a system call that waits for an answer can be interrupted by a signal,
and programs do not expect that of a fork.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import procfs
from sbx_jupyter.isolation.confined import descendants

if TYPE_CHECKING:
    from collections.abc import Generator

    from sbx_jupyter.protocol.process_stat import ProcessStat

LOOK_INTERVAL: Final = 0.1
_LONGEST_TRUST: Final = 1.0
"""Seconds after which all processes are counted again, however few were started since."""
_ROUNDS: Final = 50
_PAUSE: Final = 0.001
_MOST_PROCESSORS: Final = 1024
_LONGEST_CUT: Final = 1.0
"""Seconds after which other work of the keeper has its turn."""
_PATIENCE: Final = 5.0
"""Seconds after which programs that fork faster than they are killed end the sandbox."""


_CEILING_FACTOR: Final = 4
_LOWEST_CEILING: Final = 512
_MOST_DOUBLINGS: Final = 24


def ceiling_of_processes(limit: int) -> int:
    """The number of processes of this user from which the kernel refuses forks of one sandbox.

    It holds also while nobody counts. The kernel counts all processes of the user, which may be
    more than are seen here. Changes the soft limit of this process for a moment.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    running = _LOWEST_CEILING // 2
    try:
        for _ in range(_MOST_DOUBLINGS):
            if hard != resource.RLIM_INFINITY and running >= hard:
                break
            resource.setrlimit(resource.RLIMIT_NPROC, (running, hard))
            if _can_fork():
                break
            running *= 2
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    return running + max(_CEILING_FACTOR * limit, _LOWEST_CEILING)


def _can_fork() -> bool:
    try:
        pid = os.fork()
    except BlockingIOError:
        return False
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


class ProcessLimit:
    """Limits how many processes and threads run below this process, the agent included."""

    def __init__(self, limit: int) -> None:
        """``limit`` 0 means no limit."""
        self._limit = limit
        self._count = 0
        self._made = 0
        self._counted_at = float("-inf")
        self._over_since: float | None = None
        self._load = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)

    @property
    def holds(self) -> bool:
        """Whether there is a limit."""
        return self._limit > 0

    def has_room(self) -> bool:
        """Whether one more process may start."""
        return not self.holds or self._recount() <= self._limit

    def cut(self) -> bool:
        """If there are too many, kill the largest session, or else the youngest processes.

        Says whether the sandbox may go on: not when, for seconds, its programs have forked faster
        than they were killed.
        """
        now = time.monotonic()
        if not self.holds or self._recount() <= self._limit or self._kill_what_is_too_many():
            self._over_since = None
            return True
        if self._over_since is None:
            self._over_since = now
        return time.monotonic() - self._over_since < _PATIENCE

    def _kill_what_is_too_many(self) -> bool:
        """Kill until the limit is kept; False when there are too many after some rounds.

        The kernel kills a group of processes at once, so that no fork escapes. It gives this
        process little time beside hundreds of others, too little to find them one by one.
        """
        with _on_other_processors():
            return self._kill_in_rounds()

    def _kill_in_rounds(self) -> bool:
        ended: set[tuple[int, int]] = set()
        deadline = time.monotonic() + _LONGEST_CUT
        for _ in range(_ROUNDS):
            if time.monotonic() > deadline:
                break
            members = [
                member for member in _members() if (member.pid, member.start_time) not in ended
            ]
            if sum(member.threads for member in members) <= self._limit:
                return True
            chosen, is_whole_session = _choose_to_kill(members)
            if is_whole_session:
                for group in {member.group for member in chosen}:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(group, signal.SIGKILL)
            for member in chosen:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
                ended.add((member.pid, member.start_time))
            time.sleep(_PAUSE)
        return False

    def _recount(self) -> int:
        """The largest number of processes and threads that there can be now."""
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


@contextlib.contextmanager
def _on_other_processors() -> Generator[None]:
    """Leave the processors of the sandbox meanwhile, where its programs leave little time."""
    bound = os.sched_getaffinity(0)
    try:
        # The kernel takes those that there are and that this process may use.
        os.sched_setaffinity(0, set(range(_MOST_PROCESSORS)) - bound)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setaffinity(0, bound)


def _members() -> list[ProcessStat]:
    """Every program below this process; the agent and its workers are of our session."""
    own = os.getsid(0)
    found = map(procfs.read_stat, descendants.descendants(os.getpid()))
    return [stat for stat in found if stat is not None and stat.session != own]


def _choose_to_kill(members: list[ProcessStat]) -> tuple[list[ProcessStat], bool]:
    """Processes, and whether they are all of one session."""
    sizes: Counter[int] = Counter()
    for member in members:
        sizes[member.session] += member.threads
    (session, size), *_ = sizes.most_common(1)
    if 2 * size >= sizes.total():
        return [member for member in members if member.session == session], True
    youngest = sorted(members, key=lambda member: member.start_time, reverse=True)
    return youngest[: len(youngest) // 2 + 1], False
