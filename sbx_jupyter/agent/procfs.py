"""Reads what the kernel says of processes under ``/proc``; standard library only.

Used by the agent inside a sandbox and by the zygote and the engine outside of it.
"""

from __future__ import annotations

import functools
import os
import select
from pathlib import Path
from typing import Any, Final, NamedTuple

PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")
TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
"""Nanoseconds in one clock tick, the unit of processor time in ``/proc/<pid>/stat``."""

_MAX_STAT_SIZE: Final = 4096
_FIELDS: Final = 22
"""Fields after the program's name up to ``rss``, the last one that is read; see proc(5)."""

_ENDED: Final = ("Z", "X")


class ProcessStat(NamedTuple):
    """The fields of ``/proc/<pid>/stat`` that sbx-jupyter uses; times in clock ticks."""

    pid: int
    state: str
    """One letter of proc(5), such as ``R``, ``S``, ``T`` or ``Z``."""
    parent: int
    session: int
    flags: int
    own_ticks: int
    """Processor time of the process, in user and kernel mode."""
    child_ticks: int
    """Processor time of its children that have ended and were waited for."""
    threads: int
    start_time: int
    """Since boot."""
    resident_bytes: int


def parse_stat(text: bytes) -> ProcessStat | None:
    """Parse a line of ``/proc/<pid>/stat``; None when it is not a complete one."""
    # The program chooses its name, which may hold any parentheses, spaces and line ends.
    head, _, tail = text.rpartition(b")")
    fields = tail.split()
    if len(fields) < _FIELDS:
        return None
    try:
        return ProcessStat(
            pid=int(head.partition(b" (")[0]),
            state=fields[0].decode("ascii"),
            parent=int(fields[1]),
            session=int(fields[3]),
            flags=int(fields[6]),
            own_ticks=int(fields[11]) + int(fields[12]),
            child_ticks=int(fields[13]) + int(fields[14]),
            threads=int(fields[17]),
            start_time=int(fields[19]),
            resident_bytes=int(fields[21]) * PAGE_SIZE,
        )
    except ValueError:
        return None


def read_stat(pid: int, thread: int | None = None) -> ProcessStat | None:
    """The state of a process, or of one of its threads; None when it is gone.

    A process that has ended and was not waited for is still there, with state ``Z``.
    """
    path = f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return parse_stat(os.read(fd, _MAX_STAT_SIZE))
    except OSError:  # it ended after the file was opened
        return None
    finally:
        os.close(fd)


def start_time_of(pid: int) -> int | None:
    """When a process started, in ticks since boot; None when it has ended, waited for or not."""
    stat = read_stat(pid)
    return None if stat is None or stat.state in _ENDED else stat.start_time


@functools.cache
def boot_id() -> str:
    """Identifies this boot: process ids and start times of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identity(pid: int) -> dict[str, Any]:
    """Identifies a process even after its id was given to another one; plain JSON."""
    return {"pid": pid, "start_time": start_time_of(pid), "boot_id": boot_id()}


def has_ended(pidfd: int) -> bool:
    """Whether a process has ended, waited for or not."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
