"""A sandbox without a pid namespace: its keeper's descendants, found through /proc.

The keeper stands outside the sandbox's Landlock domain, so nothing inside can signal it; orphans of
the sandbox become its children, so nothing escapes it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final, NoReturn

from sbx_jupyter.agent import procfs
from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.kernel.usage import Usage

_PATIENCE: Final = 1.0
"""Seconds until a process that cannot be stopped is left to itself."""

_STILL: Final = frozenset("TtZXx")
"""States of a thread that runs no code: stopped, traced, ended."""


def descendants(pid: int) -> list[int]:
    """Every process below ``pid``, parents first."""
    return _walk(pid)[0]


def count_tasks(pid: int) -> int:
    """Count the threads of all processes below ``pid``."""
    return _walk(pid)[1]


def _walk(pid: int) -> tuple[list[int], int]:
    found: list[int] = []
    count = 0
    todo = [pid]
    while todo:
        parent = todo.pop()
        with contextlib.suppress(OSError):
            tasks = os.listdir(f"/proc/{parent}/task")
            count += len(tasks) if parent != pid else 0
            for task in tasks:
                # A thread that ended meanwhile must not hide those after it.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    text = Path(f"/proc/{parent}/task/{task}/children").read_text()
                    children = [int(word) for word in text.split()]
                    found += children
                    todo += children
    return found, count


def members(pid: int, *, kept: bool) -> list[int]:
    """The processes of a sandbox but its agent, which is ``pid``, or below it if ``kept``."""
    below = descendants(pid)
    return below[1:] if kept else below


def stop(keeper: int) -> None:
    """SIGSTOP to every process of the sandbox but its agent."""
    _settle(keeper, signal.SIGSTOP, spare_agent=True)


def go_on(keeper: int) -> None:
    """SIGCONT to every process of the sandbox."""
    for pid in descendants(keeper):
        _signal(pid, signal.SIGCONT)


def usage(keeper: int) -> Usage:
    """CPU time and memory of the sandbox's processes; what ended is in its parent's sums."""
    ticks = resident = count = 0
    for pid in descendants(keeper):
        if (stat := procfs.read_stat(pid)) is not None:
            ticks += stat.own_ticks + stat.child_ticks
            resident += stat.resident_bytes
            count += 1
    return Usage(ticks * procfs.TICK_NS, resident, 0, count)


def end_all() -> NoReturn:
    """End everything below this process, then this process."""
    own = os.getpid()
    while True:
        _settle(own, signal.SIGSTOP, spare_agent=False)  # so that nothing forks meanwhile
        for pid in descendants(own):
            _signal(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        reap()  # the others that have ended, so that they need no walk each


def reap() -> set[int]:
    """Collect the children that ended."""
    ended: set[int] = set()
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):  # not one that stops to be traced
                ended.add(pid)
    return ended


def _settle(keeper: int, number: int, *, spare_agent: bool) -> None:
    """Signal the processes until all are stopped: a running one may fork before it is stopped."""
    seen: set[int] = set()
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        below = descendants(keeper)
        wanted = set(below[1:] if spare_agent else below)
        for pid in wanted - seen:
            _signal(pid, number)
        if wanted <= seen and not any(_is_running(pid) for pid in wanted):
            return
        seen |= wanted
        time.sleep(0.0005)


def _is_running(pid: int) -> bool:
    """Whether a thread of the process is not stopped; one that waits for a disk cannot be yet."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False  # it ended
    # A thread that ended meanwhile says nothing about the others.
    states = (procfs.read_stat(pid, int(thread)) for thread in threads)
    return any(stat is not None and stat.state not in _STILL for stat in states)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def prepare_keeper() -> None:
    """Adopt orphans, and wait for signals instead of being ended by them. Raises ``OSError``."""
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
