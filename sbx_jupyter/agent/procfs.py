"""Reads what the kernel says of processes under ``/proc``; standard library only.

Used by the agent inside a sandbox and by the zygote and the engine outside of it.
"""

from __future__ import annotations

import functools
import os
import re
import select
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.protocol.process_stat import parse_stat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbx_jupyter.protocol.process_stat import ProcessStat

TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
"""Nanoseconds in one clock tick, the unit of processor time in ``/proc/<pid>/stat``."""

_MAX_STAT_SIZE: Final = 4096
_LEADER: Final = re.compile(rb"^Tgid:\t([0-9]+)$", re.MULTILINE)
_ENDED: Final = ("Z", "X")


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


def leader_of(thread: int) -> int | None:
    """The process that a thread belongs to; None when it is gone."""
    try:
        found = _LEADER.search(Path(f"/proc/{thread}/status").read_bytes())
    except OSError:
        return None
    return int(found[1]) if found else None


def start_time_of(pid: int) -> int | None:
    """Start time of a process in ticks since boot; None if it has ended, waited for or not."""
    stat = read_stat(pid)
    return None if stat is None or stat.state in _ENDED else stat.start_time


@functools.cache
def boot_id() -> str:
    """Identifies this boot: process ids and start times of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identity(pid: int) -> dict[str, Any]:
    """Identifies a process even after its id was given to another one; plain JSON."""
    return {"pid": pid, "start_time": start_time_of(pid), "boot_id": boot_id()}


def open_identified(known: Mapping[str, Any]) -> int | None:
    """A descriptor of the process that ``identity`` named; None when it has ended."""
    if known["boot_id"] != boot_id():
        return None
    try:
        pidfd = os.pidfd_open(known["pid"])
    except OSError:
        return None
    if start_time_of(known["pid"]) != known["start_time"] or has_ended(pidfd):
        os.close(pidfd)
        return None
    return pidfd


def has_ended(pidfd: int) -> bool:
    """Whether a process has ended, waited for or not."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
