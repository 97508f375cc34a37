"""The guardian of a keeper: its parent, which ends the sandbox when the keeper is killed.

It stands outside of the sandbox as the keeper does, so nothing inside can signal it. Processes
whose keeper died become its children, and it ends all of them. When the guardian itself is killed,
the keeper ends the sandbox, and when both are, the agent does (``agent/processes/supervision.py``).
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from sbx_jupyter.isolation.confined import descendants
from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from typing import NoReturn


def fork_guarded(cgroup: int | None) -> tuple[int, int]:
    """Fork a process that has a guardian: (0, -1) in it, (pid, pidfd) in the caller.

    It has all descriptors of the caller, the guardian has none. Both may live in a control group.
    Raises ``OSError``.
    """
    told, tell = os.pipe2(os.O_CLOEXEC)
    pid, pidfd = syscalls.fork_into(0, cgroup)
    if pid == 0:
        guarded = _fork_below(tell)
        if guarded != 0:
            _guard(guarded)
        return 0, -1
    os.close(tell)
    os.close(pidfd)
    try:
        found = os.read(told, 16)
    finally:
        os.close(told)
    if not found:
        raise OSError("no keeper could be started")
    return int(found), os.pidfd_open(int(found))


def die_with(parent: int, number: int) -> None:
    """Have a signal sent to this process when its parent dies; raises ``OSError``."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before
        os._exit(1)


def _fork_below(tell: int) -> int:
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        own = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with(own, signal.SIGTERM)
            return 0
        os.write(tell, b"%d" % pid)
        return pid
    except OSError:
        os._exit(1)


def _guard(keeper: int) -> NoReturn:
    """Wait for the end of the keeper, then end the processes that it left."""
    try:
        syscalls.close_range(3, 0xFFFFFFFF)
        os.waitpid(keeper, 0)
    finally:
        descendants.end_all()
