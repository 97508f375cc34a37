"""The processes of a sandbox looked at from outside: what they hold, and which to end first.

For limits that no control group and no quota holds. Everything read here may be made up to deceive,
so numbers are only compared, and names only shown.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_NOT_ON_DISK: Final = ("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV", "/anon_hugepage")
_MAX_NAME: Final = 32


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """The files of a file system that processes hold open."""

    unnamed_bytes: int
    """What files hold that have no name any more, so that no walk finds them."""
    writers: tuple[int, ...]


def resident(pid: int, *, exact: bool = False) -> int:
    """Bytes in memory; ``exact`` gives each shared page in parts to those that share it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if exact:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0


def ticks(pid: int) -> int:
    """Processor time so far."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return sum(map(int, text.rpartition(")")[2].split()[11:13]))
    return 0


def open_files(pids: list[int]) -> OpenFiles:
    """Look at every descriptor of the processes."""
    seen: set[tuple[int, int]] = set()
    writers: list[int] = []
    unnamed = 0
    for pid in pids:
        writes = False
        for fd in _listing(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError, ValueError):
                status = os.stat(f"/proc/{pid}/fd/{fd}")
                if not stat.S_ISREG(status.st_mode):
                    continue
                if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(_NOT_ON_DISK):
                    continue
                writes = writes or _is_writable(pid, fd)
                if status.st_nlink == 0 and (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    unnamed += status.st_blocks * 512
        if writes:
            writers.append(pid)
    return OpenFiles(unnamed, tuple(writers))


def kill(pid: int) -> str:
    """End a process; gives its name, cleaned."""
    name = "?"
    with contextlib.suppress(OSError):
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:_MAX_NAME]


def _is_writable(pid: int, fd: str) -> bool:
    for line in Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def _listing(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
