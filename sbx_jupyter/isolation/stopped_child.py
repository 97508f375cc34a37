"""Frees an agent that waits for the exec of a child that somebody in the sandbox has stopped.

The agent starts processes by ``posix_spawn``: the child borrows its memory, and it sleeps until the
child's exec. The child is the user's by then, so the user's other processes can stop it in between,
and nobody inside could wake the agent again.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from sbx_jupyter.agent import procfs

_FORKED_WITHOUT_EXEC: Final = 0x40
"""``PF_FORKNOEXEC`` of linux/sched.h."""


def kill_stopped_child(agent: int) -> bool:
    """Kill the stopped child whose exec the agent waits for, if there is one; blocking.

    Only that child has the memory of the agent, and it cannot be gone and its id taken before the
    agent goes on.
    """
    own = procfs.read_stat(agent)
    if own is None or own.state != "D":
        return False
    memory = _memory(agent)
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{agent}/task/{agent}/children").read_text()
        for child in map(int, children.split()):
            found = procfs.read_stat(child)
            if found is None or found.parent != agent or found.state not in "Tt":
                continue
            if found.flags & _FORKED_WITHOUT_EXEC and _memory(child) == memory:
                os.kill(child, signal.SIGKILL)
                return True
    return False


def _memory(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/statm").read_text()
    except OSError:
        return ""
