"""Tells what processes waited for while an operation of the siege was slow.

``python -m tests.siege.waits OUTPUT ATTACKER...`` reads lines from standard input: ``+ENGINE NAME``
when an operation has run for too long, with the process id of its engine, and ``-ENGINE NAME`` when
it has ended. In between it looks at the threads of that engine's processes, of the asking process
and of the kernel, twenty times a second, and writes what they waited for to ``OUTPUT``. Processes
below an ``ATTACKER``, which are process ids, are left out. Run it as root.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections import Counter
from pathlib import Path

from sbx_jupyter.agent import procfs

INTERVAL = 0.05
_MOST_TOLD = 12
_FRAMES = 7
_KERNEL = 2
"""The process whose children are the threads of the kernel."""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _read(f"/proc/{name}/stat")):
            found[int(name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def _is_below(pid: int, tops: set[int], parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid in tops:
            return True
        pid = parents.get(pid, 0)
    return False


def _stack(pid: int, thread: str) -> str:
    lines = _read(f"/proc/{pid}/task/{thread}/stack").splitlines()
    return " < ".join(line.split("] ")[-1].partition("+")[0] for line in lines[:_FRAMES])


class _Look:
    """What was seen while one operation was slow."""

    def __init__(self, engine: int, attackers: set[int]) -> None:
        self._engine = engine
        self._attackers = attackers
        self._seen: Counter[str] = Counter()
        self._waited: dict[str, tuple[int, float]] = {}
        self._looks = 0
        self.began = time.monotonic()

    def look(self) -> None:
        self._looks += 1
        parents = _parents()
        for pid in parents:
            is_ours = _is_below(pid, {self._engine}, parents) or pid == os.getppid()
            is_kernel = parents[pid] == _KERNEL
            if pid == os.getpid() or not (is_ours or is_kernel):
                continue
            if _is_below(pid, self._attackers, parents):
                continue
            for thread in procfs_threads(pid):
                self._look_at(pid, thread, is_kernel=is_kernel)

    def _look_at(self, pid: int, thread: str, *, is_kernel: bool) -> None:
        stat = procfs.read_stat(pid, int(thread))
        if stat is None:
            return
        state = stat.state
        name = _read(f"/proc/{pid}/task/{thread}/comm").strip()
        who = name if is_kernel else f"{name} {pid}/{thread}"
        if state == "D":
            self._seen[f"{who} waits in {_stack(pid, thread)}"] += 1
        elif state == "R" and not is_kernel:
            self._seen[f"{who} runs or waits for a processor"] += 1
            waited = _read(f"/proc/{pid}/task/{thread}/schedstat").split()
            if len(waited) > 1:
                first, _ = self._waited.get(who, (int(waited[1]), 0.0))
                self._waited[who] = first, (int(waited[1]) - first) / 1e9
        elif thread == str(self._engine) and state == "S":
            self._seen[f"{who} (the loop) sleeps in {_stack(pid, thread)[:80]}"] += 1

    def told(self, name: str) -> str:
        took = time.monotonic() - self.began
        lines = [f"{time.strftime('%X')} {name} of {self._engine}: {took:.2f} s more"]
        lines[0] += f", {self._looks} looks"
        lines += [f"  {count:4} {what}" for what, count in self._seen.most_common(_MOST_TOLD)]
        queued = sorted(self._waited.items(), key=lambda item: -item[1][1])[:4]
        lines += [f"       {who} was in the queue {s:.2f} s" for who, (_, s) in queued if s > 0.1]
        for resource in ("cpu", "io", "memory"):
            first = _read(f"/proc/pressure/{resource}").splitlines()[:1]
            lines += [f"       {resource}: {line}" for line in first]
        return "\n".join(lines)


def procfs_threads(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def main() -> None:
    output, *attackers = sys.argv[1:]
    hostile = set(map(int, attackers))
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    looks: dict[str, _Look] = {}
    buffer = b""
    with open(output, "a", buffering=1) as told:
        while True:
            ready, _, _ = select.select([0], [], [], INTERVAL if looks else None)
            if ready:
                if not (chunk := os.read(0, 1 << 16)):
                    return
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in map(bytes.decode, lines):
                    engine, _, name = line[1:].partition(" ")
                    if line[0] == "+":
                        looks[line[1:]] = _Look(int(engine), hostile)
                    elif (look := looks.pop(line[1:], None)) is not None:
                        print(look.told(name), file=told)
            for look in looks.values():
                look.look()


if __name__ == "__main__":
    main()
