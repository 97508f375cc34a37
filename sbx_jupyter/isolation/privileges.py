"""Privileges of the processes of an engine: their ids, capabilities, filters and namespaces."""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPABILITIES: Final = (
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
    "setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw",
    "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
    "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod",
    "lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog",
    "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
)  # fmt: skip
"""The names by number, as of Linux 6.18."""
_NAMESPACES: Final = ("user", "mnt", "pid", "ipc", "uts", "net", "cgroup")
_ZYGOTE: Final = b"sbx_jupyter.isolation.zygote"


@dataclass(frozen=True, slots=True)
class Privileges:
    """The privileges of one process, as procfs shows them to this one."""

    pid: int
    parent: int
    role: str
    user_ids: tuple[int, ...]
    """Real, effective, saved and of the file system, as the asker sees them."""
    group_ids: tuple[int, ...]
    capabilities: tuple[str, ...]
    """The effective ones, in the process's own user namespace."""
    bounding: tuple[str, ...]
    """The most that it or a program of it can ever have."""
    no_new_privileges: bool
    filters: int
    """Number of system call filters it runs under; ``docs/system-calls.md`` describes ours."""
    namespaces: tuple[str, ...]
    """The kinds of which it has another one than the asker; empty where that is not shown."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def privileges_below(engine: int) -> list[Privileges]:
    """The engine's process and those below it, without programs of sandboxes; parents first."""
    return list(_walk(engine, 0, "engine", 0))


def capability_names(mask: int) -> tuple[str, ...]:
    """The names of the capabilities of a set; those that have none yet by their numbers."""
    named = dict(enumerate(CAPABILITIES))
    return tuple(named.get(bit, str(bit)) for bit in range(64) if mask >> bit & 1)


def _walk(pid: int, parent: int, role: str, zygotes: int) -> Iterator[Privileges]:
    """``zygotes`` counts the processes above, this one included, that are forks of a zygote."""
    with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
        yield _read(pid, parent, role)
        if role == "agent":
            return
        for child in _children(pid):
            with contextlib.suppress(OSError, ValueError):
                forked = zygotes + (_ZYGOTE in _command(child))
                yield from _walk(child, pid, _role_of(child, forked), forked)


def _role_of(pid: int, zygotes: int) -> str:
    """The role of a process below the engine, by its place in the tree."""
    if not zygotes:
        return _program_of(pid)
    if zygotes == 1:
        return "zygote"
    numbers = _status(pid).get("NSpid", "").split()
    if zygotes == 4 or (len(numbers) > 1 and numbers[-1] == "1"):
        return "agent"
    if zygotes == 3:
        return "keeper"
    return "guardian" if _children(pid) else "worker"


def _program_of(pid: int) -> str:
    command = _command(pid)
    for role in ("supervisor", "helper"):
        if f"isolation.privileged.{role} import".encode() in command:
            return role
    words = [os.fsdecode(word) for word in command.split(b"\0") if word]
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return Path(words[0]).name if words else "?"


def _read(pid: int, parent: int, role: str) -> Privileges:
    status = _status(pid)
    return Privileges(
        pid=pid,
        parent=parent,
        role=role,
        user_ids=tuple(map(int, status["Uid"].split())),
        group_ids=tuple(map(int, status["Gid"].split())),
        capabilities=capability_names(int(status["CapEff"], 16)),
        bounding=capability_names(int(status["CapBnd"], 16)),
        no_new_privileges=status.get("NoNewPrivs") == "1",
        filters=int(status.get("Seccomp_filters", "0")),
        namespaces=tuple(kind for kind in _NAMESPACES if _has_own(pid, kind)),
    )


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        text = Path(f"/proc/{pid}/task/{task}/children").read_text()
        found += map(int, text.split())
    return sorted(found)


def _has_own(pid: int, kind: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    except PermissionError:
        return False
