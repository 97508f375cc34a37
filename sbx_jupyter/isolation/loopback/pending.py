"""Whether a signal waits for a thread whose call cannot be interrupted by it."""

from __future__ import annotations

from typing import Final

from sbx_jupyter.agent import procfs

_WANTED: Final = (b"Tgid", b"SigPnd", b"ShdPnd", b"SigBlk")


def has_signal(thread: int) -> bool:
    """Whether the kernel would interrupt a call of the thread now.

    A signal to a whole process is for the thread that the kernel chose to wake, which is the first
    one unless that blocks it. Only that thread may be told to start its call again: another one,
    which the kernel has not woken, would see the error of it.
    """
    try:
        with open(f"/proc/{thread}/status", "rb") as file:
            lines = dict(line.split(b":\t", 1) for line in file if line.startswith(_WANTED))
    except OSError:
        return False
    if len(lines) < len(_WANTED):
        return False
    own, shared, blocked = (int(lines[name], 16) for name in _WANTED[1:])
    leader = int(lines[b"Tgid"])
    pending = own | shared if leader == thread else own
    return bool(pending & ~blocked) or (leader != thread and _is_stopped(leader))


def _is_stopped(leader: int) -> bool:
    """Whether a process is being stopped; the kernel wakes each of its threads for that."""
    stat = procfs.read_stat(leader)
    return stat is not None and stat.state == "T"
