"""The processes of a sandbox and the ports that they listen on, looked at from outside.

The kernel says what is read here, but programs choose their names and command lines: those are
only shown, cleaned and cut.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import procfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sbx_jupyter.protocol.process_stat import ProcessStat

MAX_PROCESSES: Final = 2000
MAX_PORTS: Final = 512
_MAX_NAME: Final = 64
_MAX_COMMAND: Final = 4096
_MAX_TABLE: Final = 4 * 1024 * 1024
_MAX_DESCRIPTORS: Final = 20_000
"""Most descriptors that are looked at to find which program listens."""

_LISTENING: Final = "0A"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """One process; ids are those inside the sandbox."""

    pid: int
    parent: int | None
    name: str
    args: tuple[str, ...]
    stat: ProcessStat
    age_seconds: float


@dataclass(frozen=True, slots=True)
class SeenPort:
    """A listening TCP socket, with the process that has it if that could be seen."""

    port: int
    address: str
    program: str | None = None
    pid: int | None = None


def processes(first: int, members: Sequence[int]) -> list[SeenProcess]:
    """Describe ``members``, which are ids outside; ``first`` is the sandbox's first process."""
    depth = len(_ids(first))
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    inside: dict[int, int] = {}
    stats: dict[int, ProcessStat] = {}
    for pid in members[:MAX_PROCESSES]:
        ids, stat = _ids(pid), procfs.read_stat(pid)
        if stat is not None and depth and len(ids) >= depth:
            inside[pid], stats[pid] = ids[depth - 1], stat
    return [
        SeenProcess(
            pid=inside[pid],
            parent=inside.get(stat.parent),
            name=_name(pid),
            args=_command(pid),
            stat=stat,
            age_seconds=max(now - stat.start_time / _TICKS, 0.0),
        )
        for pid, stat in stats.items()
    ]


def own_ticks(members: Sequence[int]) -> dict[int, int]:
    """The processor time of each of ``members`` so far, in clock ticks."""
    read = ((pid, procfs.read_stat(pid)) for pid in members[:MAX_PROCESSES])
    return {pid: stat.own_ticks for pid, stat in read if stat is not None}


def listening(first: int) -> list[SeenPort]:
    """The ports in the network of ``first``, the lowest first, without their programs."""
    found = {each.port: each for each in _sockets(first).values()}
    return [found[port] for port in sorted(found)[:MAX_PORTS]]


def listening_programs(first: int, members: Sequence[int]) -> list[SeenPort]:
    """As ``listening``, with the programs; looks at the open files of ``members``."""
    sockets = _sockets(first)
    depth = len(_ids(first))
    owners = _owners(set(sockets), members)
    found: dict[int, SeenPort] = {}
    for inode, seen in sockets.items():
        pid = owners.get(inode)
        ids = [] if pid is None else _ids(pid)
        if pid is not None and depth and len(ids) >= depth:
            seen = SeenPort(seen.port, seen.address, _name(pid), ids[depth - 1])
        found.setdefault(seen.port, seen)
    return [found[port] for port in sorted(found)[:MAX_PORTS]]


def _sockets(pid: int) -> dict[int, SeenPort]:
    """The listening sockets in the network of a process, by inode."""
    found: dict[int, SeenPort] = {}
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), Path(f"/proc/{pid}/net/{name}").open() as table:
            found.update(_parse(table.read(_MAX_TABLE)))
    return found


def _parse(table: str) -> Iterator[tuple[int, SeenPort]]:
    """Inode and address of each listening socket in the text of ``/proc/<pid>/net/tcp``."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTENING:
            continue
        address, _, port = fields[1].rpartition(":")
        with contextlib.suppress(ValueError):
            yield int(fields[9]), SeenPort(int(port, 16), _address(address))


def _address(digits: str) -> str:
    """An address of the table: words of four bytes in the order of this machine."""
    words = [bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def _owners(inodes: set[int], members: Sequence[int]) -> dict[int, int]:
    """Map each socket to the first of ``members`` that has it open."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, int] = {}
    left = _MAX_DESCRIPTORS
    for pid in members[:MAX_PROCESSES]:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd")[:left]:
                left -= 1
                with contextlib.suppress(OSError):
                    inode = wanted.get(os.readlink(f"/proc/{pid}/fd/{name}"))
                    if inode is not None:
                        found.setdefault(inode, pid)
        if left <= 0 or len(found) == len(wanted):
            break
    return found


def _ids(pid: int) -> list[int]:
    """The ids of a process in each process namespace, from this one inwards."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"NSpid:"):
                return [int(word) for word in line.split()[1:]]
    return []


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return _clean(Path(f"/proc/{pid}/comm").read_bytes().removesuffix(b"\n"))[:_MAX_NAME]
    return "?"


def _command(pid: int) -> tuple[str, ...]:
    with contextlib.suppress(OSError), Path(f"/proc/{pid}/cmdline").open("rb") as file:
        raw = file.read(_MAX_COMMAND).removesuffix(b"\0")
        return tuple(_clean(part) for part in raw.split(b"\0")) if raw else ()
    return ()


def _clean(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)
