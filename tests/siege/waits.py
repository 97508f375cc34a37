"""Tells what processes waited for while an operation of the siege was slow.

``python -m tests.siege.waits OUTPUT ATTACKER...`` reads lines from standard input: ``+ENGINE NAME``
when an operation has run for too long, with the process id of its engine, and ``-ENGINE NAME`` when
it has ended. In between it looks at all processes twice a second, once for all operations:
looking more often would be what the operations wait for. Written to ``OUTPUT`` are

- how long the threads of the engine, of its zygote and of the asking process ran, and how long they
  waited for a processor,
- the processor time of the hostile sandboxes, which are below the process ids ``ATTACKER``, of the
  engines with all other sandboxes, of the asking process, of the kernel, and of everything else,
- in what threads of the engine, of its children and of the kernel waited for anything else.

Run it as root.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from sbx_jupyter.agent import procfs

if TYPE_CHECKING:
    from sbx_jupyter.protocol.process_stat import ProcessStat

INTERVAL = 0.5
_MOST_TOLD = 8
_FRAMES = 7
_KERNEL = 2
"""The process whose children are the threads of the kernel."""


class Queued(NamedTuple):
    """What a thread has run and has waited for a processor, in seconds."""

    name: str
    ran: float
    waited: float


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(fd, 4096).decode(errors="replace")
    except OSError:  # it has ended
        return ""
    finally:
        os.close(fd)


def _threads(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def _queued(pids: list[int]) -> dict[str, Queued]:
    """The threads of processes, by process and thread."""
    found: dict[str, Queued] = {}
    for pid in pids:
        for thread in _threads(pid):
            path = f"/proc/{pid}/task/{thread}"
            if len(counted := _read(f"{path}/schedstat").split()) > 1:
                ran, waited = (int(text) / 1e9 for text in counted[:2])
                found[f"{pid}/{thread}"] = Queued(_read(f"{path}/comm").strip(), ran, waited)
    return found


def _stack(pid: int, thread: str) -> str:
    lines = _read(f"/proc/{pid}/task/{thread}/stack").splitlines()
    return " < ".join(line.split("] ")[-1].partition("+")[0] for line in lines[:_FRAMES])


class Machine:
    """All processes, sorted into those that matter to the siege."""

    def __init__(self, attackers: set[int]) -> None:
        self._attackers = attackers
        self._asking = os.getppid()
        self.engines: set[int] = set()
        self.processes: dict[int, ProcessStat] = {}
        self.groups: dict[int, str] = {}

    def look(self) -> None:
        pids = map(int, filter(str.isdigit, os.listdir("/proc")))
        stats = map(procfs.read_stat, pids)
        self.processes = {stat.pid: stat for stat in stats if stat is not None}
        self.groups = {}
        for pid in self.processes:
            self._group_of(pid)

    def used_ns(self) -> Counter[str]:
        """The processor time of each group so far; not of all processes that have ended."""
        found: Counter[str] = Counter()
        for pid, stat in self.processes.items():
            found[self.groups[pid]] += (stat.own_ticks + stat.child_ticks) * procfs.TICK_NS
        return found

    def waiting(self, group: str) -> list[str]:
        """What the threads of a group wait for without being interruptible."""
        found: list[str] = []
        for pid, name in self.groups.items():
            if name != group:
                continue
            for thread in _threads(pid) if pid in self.engines else [str(pid)]:
                stat = procfs.read_stat(pid, int(thread))
                if stat is not None and stat.state == "D":
                    who = _read(f"/proc/{pid}/task/{thread}/comm").strip()
                    found.append(f"{who} waits in {_stack(pid, thread)}")
        return found

    def _group_of(self, pid: int) -> str:
        if pid in self.groups:
            return self.groups[pid]
        if pid in self._attackers:
            found = "hostile sandboxes"
        elif pid in self.engines:
            found = f"engine {pid}"
        elif pid in (self._asking, os.getpid()):
            found = "asking"
        elif pid == _KERNEL:
            found = "kernel"
        elif (stat := self.processes.get(pid)) is None or pid <= 1:
            found = "others"
        else:
            self.groups[pid] = "others"  # should a parent's id be used again meanwhile
            found = self._group_of(stat.parent)
        self.groups[pid] = found
        return found


@dataclass
class Look:
    """What was seen while one operation was slow."""

    engine: int
    machine: Machine
    began: float = field(default_factory=time.monotonic)
    looks: int = 0
    seen: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        children = [
            pid
            for pid, stat in self.machine.processes.items()
            if stat.parent == self.engine and self.machine.groups[pid] == f"engine {self.engine}"
        ]
        self._watched = [self.engine, os.getppid(), *children]
        self._queued = _queued(self._watched)
        self._used_ns = self.machine.used_ns()

    def look(self) -> None:
        self.looks += 1
        for group in (f"engine {self.engine}", "kernel"):
            self.seen.update(self.machine.waiting(group))

    def told(self, name: str) -> str:
        took = time.monotonic() - self.began
        lines = [f"{time.strftime('%X')} {name} of {self.engine}: {took:.2f} s more"]
        lines[0] += f", {self.looks} looks"
        used = self.machine.used_ns()
        used.subtract(self._used_ns)
        parts = [f"{group} {ns / 1e9:.2f}" for group, ns in used.items() if ns > 1e7]
        lines.append(f"  processor time: {', '.join(sorted(parts))}")
        later = _queued(self._watched)
        for thread, before in self._queued.items():
            after = later.get(thread, before)
            ran, waited = after.ran - before.ran, after.waited - before.waited
            if waited > 0.1:
                who = f"{after.name} {thread}"
                lines.append(f"  {who} ran {ran:.2f} s and was in the queue {waited:.2f} s")
        lines += [f"  {count:4} {what}" for what, count in self.seen.most_common(_MOST_TOLD)]
        return "\n".join(lines)


def main() -> None:
    output, *attackers = sys.argv[1:]
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    machine = Machine(set(map(int, attackers)))
    looks: dict[str, Look] = {}
    due = 0.0
    buffer = b""
    with open(output, "a", buffering=1) as told:
        while True:
            patience = max(due - time.monotonic(), 0.0) if looks else None
            ready, _, _ = select.select([0], [], [], patience)
            if not ready:
                machine.look()
                for look in looks.values():
                    look.look()
                due = time.monotonic() + INTERVAL
                continue
            if not (chunk := os.read(0, 1 << 16)):
                break
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in map(bytes.decode, lines):
                engine, _, name = line[1:].partition(" ")
                machine.engines.add(int(engine))
                machine.look()
                if line[0] == "+":
                    looks[line[1:]] = Look(int(engine), machine)
                elif (look := looks.pop(line[1:], None)) is not None:
                    print(look.told(name), file=told)
        used = time.process_time()
        print(f"Looking took {used:.2f} s of processor time.", file=told)


if __name__ == "__main__":
    main()
