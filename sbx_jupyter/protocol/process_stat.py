"""Parses the text of ``/proc/<pid>/stat``, for the engine, the agent and the Jupyter server.

The agent imports this module, so it imports only the standard library.
"""

from __future__ import annotations

import mmap
from typing import Final, NamedTuple

PAGE_SIZE: Final = mmap.PAGESIZE

_FIELDS: Final = 22
"""Fields after the program's name up to ``rss``, the last one that is read; see proc(5)."""


class ProcessStat(NamedTuple):
    """The fields of ``/proc/<pid>/stat`` that sbx-jupyter uses; times in clock ticks."""

    pid: int
    state: str
    """One letter of proc(5), such as ``R``, ``S``, ``T`` or ``Z``."""
    parent: int
    group: int
    session: int
    foreground_group: int
    """The process group in front of its terminal; -1 when it has none."""
    flags: int
    own_ticks: int
    """Processor time of the process, in user and kernel mode."""
    child_ticks: int
    """Processor time of its children that have ended and were waited for."""
    threads: int
    start_time: int
    """Ticks since boot."""
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
            group=int(fields[2]),
            session=int(fields[3]),
            foreground_group=int(fields[5]),
            flags=int(fields[6]),
            own_ticks=int(fields[11]) + int(fields[12]),
            child_ticks=int(fields[13]) + int(fields[14]),
            threads=int(fields[17]),
            start_time=int(fields[19]),
            resident_bytes=int(fields[21]) * PAGE_SIZE,
        )
    except ValueError:
        return None
