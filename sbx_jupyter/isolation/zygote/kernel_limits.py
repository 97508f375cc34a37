"""Limits of resources that the kernel counts per user, per namespace or for the whole machine.

They are set in the namespaces of a sandbox before its code runs; inside, ``/proc/sys`` can only be
read.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbx_jupyter.isolation.zygote.order import Order

MAX_TERMINALS: Final = 256
"""Pseudo-terminals of one sandbox; machines usually have 4,096."""

_SHARE: Final = 4
"""One id of a sandbox gets this part of what a user of the machine may have of inotify."""
_MIN_INSTANCES: Final = 16
_MIN_WATCHES: Final = 8192
_MAX_MESSAGE_QUEUES: Final = 256
_NAMESPACES: Final = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")
_PROC_SYS: Final = Path("/proc/sys")


def set_limits(order: Order) -> None:
    """Set the limits that this kernel lets the owner of its own namespaces set."""
    for name, value in _settings(order):
        # An older kernel does not have it, or not per namespace: then the machine's applies.
        with contextlib.suppress(OSError):
            (_PROC_SYS / name).write_text(str(value))


def _settings(order: Order) -> Iterator[tuple[str, int]]:
    for kind in _NAMESPACES:
        yield f"user/max_{kind}_namespaces", 0
    for what, least in (("instances", _MIN_INSTANCES), ("watches", _MIN_WATCHES)):
        most = _read(f"fs/inotify/max_user_{what}")
        if most is not None:
            yield f"user/max_inotify_{what}", max(least, most // _SHARE)
    yield "kernel/msgmni", _MAX_MESSAGE_QUEUES
    if order.memory_mb > 0:
        memory = order.memory_mb << 20
        yield "kernel/shmall", memory // os.sysconf("SC_PAGE_SIZE")
        yield "kernel/shmmax", memory


def _read(name: str) -> int | None:
    try:
        return int((_PROC_SYS / name).read_text())
    except (OSError, ValueError):
        return None
