"""Reads what a sandbox holds in memory that belongs to its namespaces, not to a process.

Changes the namespaces of this process. Each function takes processes of the sandbox: an ordinary
user's zygote may not look into the agent, but into its programs.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Final

from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.resource_use import socket_memory
from sbx_jupyter.isolation.resource_use.file_systems import is_in_memory

_MOST_TRIED: Final = 20
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_files(pids: list[int]) -> tuple[int, set[int]]:
    """Bytes in ``/dev/shm`` of the sandbox, and its device, to leave out elsewhere."""
    for pid in pids[:_MOST_TRIED]:
        with contextlib.suppress(OSError):
            folder = os.open(f"/proc/{pid}/root/dev/shm", _FOLDER)
            try:
                # A program may have changed its root.
                if is_in_memory(f"/proc/self/fd/{folder}"):
                    status = os.statvfs(folder)
                    used = (status.f_blocks - status.f_bfree) * status.f_frsize
                    return used, {os.fstat(folder).st_dev}
            finally:
                os.close(folder)
    return 0, set()


def read_segments(pids: list[int]) -> int:
    """Bytes of the System V segments of a sandbox, attached or not; 0 where they are not told."""
    with contextlib.suppress(OSError, ValueError):
        _enter(pids, "ipc", syscalls.CLONE_NEWIPC)
        rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
        columns = [rows[0].index(name) for name in ("rss", "swap")]
        return sum(int(row[column]) for row in rows[1:] for column in columns)
    return 0


def read_sockets(pids: list[int]) -> dict[int, int]:
    """Bytes of each socket in the network of a sandbox; see ``socket_memory``."""
    with contextlib.suppress(OSError):
        _enter(pids, "net", syscalls.CLONE_NEWNET)
        return socket_memory.read_all()
    return {}


def _enter(pids: list[int], kind: str, flag: int) -> None:
    """Enter a namespace of the sandbox. Raises ``OSError``."""
    namespace = _open_namespace(pids, kind)
    try:
        syscalls.call("setns", namespace, flag)
    finally:
        os.close(namespace)


def _open_namespace(pids: list[int], kind: str) -> int:
    for pid in pids[:_MOST_TRIED]:
        with contextlib.suppress(OSError):
            return os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
    raise OSError(errno.ENOENT, f"no process shows the namespace {kind!r}")
