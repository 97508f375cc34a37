"""The processes of a sandbox looked at from outside: their memory, their time, and ending one.

For limits that no control group holds. Everything read here may be made up to deceive, so numbers
are only compared, and names only shown.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sbx_jupyter.agent import procfs

_MAX_NAME: Final = 32
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one process, in bytes."""

    resident: int
    in_files: int
    """The part of it that shows memory files and shared mappings."""


_NO_MEMORY: Final = Memory(0, 0)


def memory(pid: int) -> Memory:
    """Memory of a process, where shared pages count in full."""
    # When the first thread has ended before the others, only those tell.
    found = _read_memory(f"/proc/{pid}/status", "VmRSS:", "RssShmem:")
    if found is None:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                found = _read_memory(f"/proc/{thread}/status", "VmRSS:", "RssShmem:")
                if found is not None:
                    return found
    return found or _NO_MEMORY


def exact_memory(pid: int) -> Memory:
    """Memory of a process, where each shared page counts in parts to those that share it."""
    found = _read_memory(f"/proc/{pid}/smaps_rollup", "Pss:", "Pss_Shmem:")
    return memory(pid) if found is None else found  # it is closed to us, or ends


def _read_memory(path: str, *names: str) -> Memory | None:
    """The values of two lines in KiB; ``None`` without the first."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return None
    rows = dict(line.split(None, 1) for line in lines if line.startswith(names))
    values = [int(rows[name].split()[0]) * _KIB if name in rows else None for name in names]
    return None if values[0] is None else Memory(values[0], values[1] or 0)


def ticks(pid: int) -> int:
    """Processor time so far."""
    stat = procfs.read_stat(pid)
    return 0 if stat is None else stat.own_ticks


def kill(pid: int) -> str:
    """End a process; gives its name, cleaned."""
    name = "?"
    with contextlib.suppress(OSError):
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:_MAX_NAME]
