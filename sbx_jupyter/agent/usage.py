"""Counting and stopping the sandbox's processes, for machines whose kernel does not do it."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .operation import Answer, Body


_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_STOP_ROUNDS: Final = 10


@dataclass(frozen=True, slots=True)
class _Member:
    """One line of ``/proc/<pid>/stat``."""

    pid: int
    parent: int
    state: str
    ticks: int
    start: int
    memory: int


class Census:
    """The processes of this sandbox: all but PID 1 or, without a pid namespace, its descendants."""

    def __init__(self) -> None:
        self._stopped: set[tuple[int, int]] = set()

    def usage(self, _body: Body) -> Answer:
        everyone = _members(with_self=True)
        disk = os.statvfs("/")
        return {
            "cpu_ns": sum(member.ticks for member in everyone) * _TICK_NS,
            "memory_bytes": sum(member.memory for member in everyone),
            "processes": len(everyone),
            "disk_used": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
            "disk_total": disk.f_blocks * disk.f_frsize,
        }, ()

    def freeze(self, body: Body) -> Answer:
        """Stop everybody, or let those go on who were stopped here and not by themselves."""
        count = self._stop() if body["frozen"] else self._go_on()
        return {"processes": count}, ()

    def _stop(self) -> int:
        for _ in range(_STOP_ROUNDS):  # what was running may have forked meanwhile
            # Who was sent SIGSTOP and has not run since is as good as stopped. Looked at before
            # the state: the kernel takes the signal and stops the process in one step.
            stopping = _about_to_stop()
            running = [m for m in _members() if m.state not in "TtZX"]
            running = [m for m in running if m.pid not in stopping or self._is_stopped_here(m)]
            fresh = [m for m in running if (m.pid, m.start) not in self._stopped]
            for member in running:
                _signal(member.pid, signal.SIGSTOP)
            self._stopped.update((m.pid, m.start) for m in running)
            if not fresh:
                break
        return len(self._stopped)

    def _is_stopped_here(self, member: _Member) -> bool:
        return (member.pid, member.start) in self._stopped

    def _go_on(self) -> int:
        count = 0
        for member in _members():
            if (member.pid, member.start) in self._stopped:
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


def _members(*, with_self: bool = False) -> list[_Member]:
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


def _read_all() -> Iterator[_Member]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (member := _read(int(name))) is not None:
            yield member


def _read(pid: int) -> _Member | None:
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096).decode("latin-1")
    except OSError:
        return None
    finally:
        os.close(fd)
    # The name of the program comes in brackets and may itself hold any brackets and spaces.
    fields = text.rpartition(")")[2].split()
    if len(fields) < 22:
        return None
    ticks = sum(int(number) for number in fields[11:15])
    return _Member(pid, int(fields[1]), fields[0], ticks, int(fields[19]), int(fields[21]) * _PAGE)
