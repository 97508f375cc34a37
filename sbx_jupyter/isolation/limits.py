"""The mechanism that enforces each limit of a sandbox, and the word for how strict it is.

The isolation report, ``jupyter sbx doctor``, the panel, the metrics of the engine and the tables in
``docs/limits.md`` all take these words from here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from sbx_jupyter.isolation.kernel.processors import AFFINITY

CGROUP_V1: Final = "cgroup v1"
CGROUP_V2: Final = "cgroup v2"
WATCHDOG: Final = "watchdog"
KEEPER: Final = "keeper"
RLIMIT: Final = "rlimit"
NO_SOCKETS: Final = "no sockets"
METRICS: Final = "metrics"
NOTHING: Final = "none"
BTRFS_QUOTA: Final = "btrfs quota"


class Word(enum.StrEnum):
    """How strictly a limit is enforced."""

    LIMITED = "limited"
    """The kernel refuses what goes over it."""

    WATCHED = "watched"
    """The engine looks at intervals, so a program can go over it for a moment."""

    NOT_LIMITED = "not limited"


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One of the things that can hold a sandbox to a limit."""

    word: Word
    how: str
    """A sentence for the documentation."""


_OF_MEMORY: Final = Mechanism(Word.LIMITED, "It counts as memory of the control group.")

MECHANISMS: Final[dict[str, dict[str, Mechanism]]] = {
    "memory": {
        CGROUP_V2: Mechanism(
            Word.LIMITED, "`memory.max`: the kernel ends a process of the sandbox."
        ),
        CGROUP_V1: Mechanism(
            Word.LIMITED, "`memory.limit_in_bytes`: the kernel ends a process of the sandbox."
        ),
        WATCHDOG: Mechanism(
            Word.WATCHED,
            "The engine counts what all processes use and ends the largest. The kernel limits the"
            " private memory of each process (`RLIMIT_DATA`), not their sum.",
        ),
    },
    "shared_memory": {
        CGROUP_V2: _OF_MEMORY,
        CGROUP_V1: _OF_MEMORY,
        WATCHDOG: Mechanism(
            Word.WATCHED,
            "Memory files count with the memory, once each, whether they are open, mapped or in"
            " flight over a socket. `/dev/shm` and System V segments have a size limit of the"
            " kernel besides.",
        ),
        NOTHING: Mechanism(Word.NOT_LIMITED, "Nothing fences the sandbox."),
    },
    "tcp_memory": {
        CGROUP_V2: _OF_MEMORY,
        CGROUP_V1: Mechanism(
            Word.WATCHED,
            "The kernel brakes from a quarter of the memory on"
            " (`memory.kmem.tcp.limit_in_bytes`), but gives each socket its least buffers. When"
            " they are more than half of the memory, which they add to, the engine ends the"
            " processes with the most.",
        ),
        WATCHDOG: Mechanism(
            Word.WATCHED, "The buffers of all sockets count with the memory of the sandbox."
        ),
        NO_SOCKETS: Mechanism(Word.LIMITED, "A sandbox can open no TCP sockets."),
        NOTHING: Mechanism(Word.NOT_LIMITED, "Nothing counts it."),
    },
    "disk": {
        BTRFS_QUOTA: Mechanism(
            Word.LIMITED,
            "A quota group for the sandbox's subvolume: writes fail with “disk quota exceeded”.",
        ),
        WATCHDOG: Mechanism(
            Word.WATCHED,
            "The engine counts named and unnamed files and ends the processes that hold or write"
            " them. The kernel limits the size of one file (`RLIMIT_FSIZE`).",
        ),
    },
    "inodes": {
        BTRFS_QUOTA: Mechanism(Word.LIMITED, "The records of files count as disk of the sandbox."),
        WATCHDOG: Mechanism(Word.WATCHED, "64 files for each MiB of the disk limit."),
    },
    "volumes": {
        BTRFS_QUOTA: Mechanism(
            Word.LIMITED, "A quota group for each volume, of `c.SbxEngine.volume_size_mb`."
        ),
        WATCHDOG: Mechanism(
            Word.WATCHED,
            "The engine counts the volumes that a sandbox mounts; when one is larger than"
            " `c.SbxEngine.volume_size_mb`, the processes that write are ended.",
        ),
    },
    "processes": {
        CGROUP_V2: Mechanism(Word.LIMITED, "`pids.max`: a fork fails."),
        CGROUP_V1: Mechanism(Word.LIMITED, "`pids.max`: a fork fails."),
        RLIMIT: Mechanism(
            Word.LIMITED,
            "`RLIMIT_NPROC` for each user in the sandbox, and `pid_max` of its process namespace"
            " (Linux 6.14): a fork fails.",
        ),
        KEEPER: Mechanism(
            Word.WATCHED,
            "The keeper counts ten times a second. Over the limit it kills the programs of one"
            " `setsid` session if these are half of all or more, else the youngest ones. The kernel"
            " has a ceiling far above (`RLIMIT_NPROC`: four times the limit, and at least 512, more"
            " than the user ran when the sandbox began).",
        ),
    },
    "cpu": {
        CGROUP_V2: Mechanism(Word.LIMITED, "`cpu.max`: the time of so many processors."),
        CGROUP_V1: Mechanism(Word.LIMITED, "`cpu.cfs_quota_us`: the time of so many processors."),
        AFFINITY: Mechanism(
            Word.LIMITED, "The sandbox is bound to so many processors, which others use as well."
        ),
    },
    "cpu_shares": {
        CGROUP_V2: Mechanism(
            Word.LIMITED,
            "`cpu.weight`: shares between sandboxes by their number of processors, and of all"
            " sandboxes against the rest of the machine by `c.SbxEngine.cpu_weight`.",
        ),
        CGROUP_V1: Mechanism(
            Word.LIMITED,
            "`cpu.shares`: between sandboxes by their number of processors, and of all sandboxes"
            " against the rest of the machine by `c.SbxEngine.cpu_weight`.",
        ),
        METRICS: Mechanism(
            Word.WATCHED,
            "The use is measured, and sandboxes run at a lower priority than the engine. Nothing"
            " shares out the time among them.",
        ),
    },
}
"""Resource to what can hold a sandbox to it, strongest first."""

TITLES: Final[dict[str, str]] = {
    "memory": "Memory",
    "shared_memory": "Shared memory",
    "tcp_memory": "TCP memory",
    "disk": "Disk",
    "inodes": "Number of files",
    "volumes": "Volumes",
    "processes": "Processes",
    "cpu": "Processors",
    "cpu_shares": "Shares of processor time",
}


@dataclass(frozen=True, slots=True)
class Provided:
    """The mechanisms of a machine that can enforce limits."""

    memory: str = NOTHING
    """``cgroup v1``, ``cgroup v2`` or ``none``; ``cpu`` and ``pids`` alike."""

    cpu: str = NOTHING
    pids: str = NOTHING
    tcp: str = NOTHING
    """The hierarchy that counts TCP memory: one of the same three."""

    disk: str = NOTHING
    """``btrfs quota`` or ``none``."""


def find_holders(provided: Provided, *, namespaces: bool, landlock: bool) -> dict[str, str]:
    """The mechanism that enforces the limit of each resource in a tier."""
    memory = _or(provided.memory, WATCHDOG)
    disk = _or(provided.disk, WATCHDOG)
    return {
        "memory": memory,
        "shared_memory": memory,
        "tcp_memory": NO_SOCKETS if landlock else _tcp(provided, namespaces),
        "disk": disk,
        "inodes": disk,
        "volumes": disk,
        "processes": _or(provided.pids, RLIMIT if namespaces else KEEPER),
        "cpu": _or(provided.cpu, AFFINITY),
        "cpu_shares": _or(provided.cpu, METRICS),
    }


def _tcp(provided: Provided, namespaces: bool) -> str:
    if provided.tcp != NOTHING:
        return provided.tcp
    # Without a network of its own, the sockets of a sandbox are among those of the machine.
    return WATCHDOG if namespaces and provided.memory == NOTHING else NOTHING


def words(mechanisms: dict[str, str]) -> dict[str, str]:
    """The word for each resource, by what holds it."""
    return {resource: word_of(resource, mechanism) for resource, mechanism in mechanisms.items()}


def word_of(resource: str, mechanism: str) -> str:
    """``limited``, ``watched`` or ``not limited``; the last for a mechanism that is not known."""
    known = MECHANISMS.get(resource, {}).get(mechanism)
    return Word.NOT_LIMITED.value if known is None else known.word.value


def _or(found: str, otherwise: str) -> str:
    return otherwise if found == NOTHING else found


def to_markdown() -> str:
    """The table of ``docs/limits.md``."""
    lines = ["| Resource | `limits` in `doctor --json` | Word | How |", "|---|---|---|---|"]
    lines += [
        f"| {TITLES[resource]} (`{resource}`) | `{name}` | **{mechanism.word}** | {mechanism.how} |"
        for resource, mechanisms in MECHANISMS.items()
        for name, mechanism in mechanisms.items()
    ]
    return "\n".join(lines) + "\n"
