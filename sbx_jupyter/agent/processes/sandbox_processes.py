"""Counts and stops the sandbox's processes, on machines without control groups for that."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbx_jupyter.agent.operation import Answer, Body
    from sbx_jupyter.protocol.process_stat import ProcessStat


_STOP_ROUNDS: Final = 10


class SandboxProcesses:
    """The processes of this sandbox: all but PID 1 or, without a pid namespace, its descendants."""

    def __init__(self) -> None:
        self._stopped: set[tuple[int, int]] = set()

    def usage(self, _body: Body) -> Answer:
        everyone = _members(with_self=True)
        disk = os.statvfs("/")
        return {
            "cpu_ns": sum(member.own_ticks + member.child_ticks for member in everyone)
            * procfs.TICK_NS,
            "memory_bytes": sum(member.resident_bytes for member in everyone),
            "processes": len(everyone),
            "disk_used": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
            "disk_total": disk.f_blocks * disk.f_frsize,
        }, ()

    def freeze(self, body: Body) -> Answer:
        """Stop all processes, or continue those that an earlier call stopped."""
        count = self._stop() if body["frozen"] else self._go_on()
        return {"processes": count}, ()

    def _stop(self) -> int:
        for _ in range(_STOP_ROUNDS):  # what was running may have forked meanwhile
            # Who was sent SIGSTOP and has not run since is as good as stopped. Looked at before
            # the state: the kernel takes the signal and stops the process in one step.
            stopping = _about_to_stop()
            running = [m for m in _members() if m.state not in "TtZX"]
            running = [m for m in running if m.pid not in stopping or self._is_stopped_here(m)]
            fresh = [m for m in running if (m.pid, m.start_time) not in self._stopped]
            for member in running:
                _signal(member.pid, signal.SIGSTOP)
            self._stopped.update((m.pid, m.start_time) for m in running)
            if not fresh:
                break
        return len(self._stopped)

    def _is_stopped_here(self, member: ProcessStat) -> bool:
        return (member.pid, member.start_time) in self._stopped

    def _go_on(self) -> int:
        count = 0
        for member in _members():
            if (member.pid, member.start_time) in self._stopped:
                _signal(member.pid, signal.SIGCONT)
                count += 1
        self._stopped.clear()
        return count


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.kill(pid, number)


def _about_to_stop() -> set[int]:
    """The processes for which a SIGSTOP is waiting."""
    bit = 1 << (signal.SIGSTOP - 1)
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/status", "rb") as file:
            for line in file:
                if line.startswith((b"SigPnd:", b"ShdPnd:")) and int(line.split()[1], 16) & bit:
                    found.add(int(name))
    return found


def _members(*, with_self: bool = False) -> list[ProcessStat]:
    own = os.getpid()
    everyone = {member.pid: member for member in _read_all()}
    if own == 1:
        return [m for m in everyone.values() if with_self or m.pid != own]
    belongs = {own: True, 0: False, 1: False}

    def is_ours(pid: int) -> bool:
        chain: list[int] = []
        while pid not in belongs:
            chain.append(pid)
            belongs[pid] = False  # stands until the way up is known, also against a loop
            pid = everyone[pid].parent if pid in everyone else 0
        for link in chain:
            belongs[link] = belongs[pid]
        return belongs[pid] if not chain else belongs[chain[0]]

    return [m for m in everyone.values() if is_ours(m.pid) and (with_self or m.pid != own)]


def _read_all() -> Iterator[ProcessStat]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (member := procfs.read_stat(int(name))) is not None:
            yield member
