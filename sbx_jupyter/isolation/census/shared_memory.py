"""Reads what a sandbox holds in memory that belongs to its namespaces, not to a process.

Changes the namespaces of this process.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from sbx_jupyter.isolation.census import socket_memory
from sbx_jupyter.isolation.census.file_systems import is_in_memory
from sbx_jupyter.isolation.kernel import syscalls

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_files(agent: int) -> tuple[int, set[int]]:
    """Bytes in ``/dev/shm`` of the sandbox with this agent, and the device, to leave out."""
    try:
        folder = os.open(f"/proc/{agent}/root/dev/shm", _FOLDER)
    except OSError:
        return 0, set()
    try:
        if not is_in_memory(f"/proc/self/fd/{folder}"):
            return 0, set()
        status = os.statvfs(folder)
        return (status.f_blocks - status.f_bfree) * status.f_frsize, {os.fstat(folder).st_dev}
    finally:
        os.close(folder)


def read_segments(agent: int) -> int:
    """Bytes of the System V segments of a sandbox, attached or not; 0 where they are not told."""
    with contextlib.suppress(OSError, ValueError):
        _enter(agent, "ipc", syscalls.CLONE_NEWIPC)
        rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
        columns = [rows[0].index(name) for name in ("rss", "swap")]
        return sum(int(row[column]) for row in rows[1:] for column in columns)
    return 0


def read_sockets(agent: int) -> dict[int, int]:
    """Bytes of each socket in the network of a sandbox; see ``socket_memory``."""
    with contextlib.suppress(OSError):
        _enter(agent, "net", syscalls.CLONE_NEWNET)
        return socket_memory.read_all()
    return {}


def _enter(pid: int, kind: str, flag: int) -> None:
    namespace = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscalls.call("setns", namespace, flag)
    finally:
        os.close(namespace)
