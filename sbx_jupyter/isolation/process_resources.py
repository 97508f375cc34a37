"""The processes of a sandbox looked at from outside: what they hold, and which to end first.

For limits that no control group and no quota holds. Everything read here may be made up to deceive,
so numbers are only compared, and names only shown.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sbx_jupyter.agent import procfs
from sbx_jupyter.protocol.process_stat import PAGE_SIZE

_NOT_ON_DISK: Final = ("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV", "/anon_hugepage")
_MAX_NAME: Final = 32
_MAX_LOOKS: Final = 250_000
"""Descriptors that are looked at in one count, about: a second or two of work."""

_MIN_LOOKS: Final = 256
"""Of each process."""

_MAX_SECONDS: Final = 15.0
"""On a machine that is busy with others."""

_MAX_WRITERS: Final = 100


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """The files of a file system that processes hold open."""

    unnamed_bytes: int
    """What files hold that have no name any more, which no walk finds; see ``open_files``."""
    writers: tuple[int, ...]


def resident(pid: int, *, exact: bool = False) -> int:
    """Bytes in memory; ``exact`` gives each shared page in parts to those that share it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if exact and (parts := _proportional(pid)) is not None:
            return parts
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_SIZE
    return 0


def _proportional(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return None  # it is closed to us, or ends


def ticks(pid: int) -> int:
    """Processor time so far."""
    stat = procfs.read_stat(pid)
    return 0 if stat is None else stat.own_ticks


def open_files(pids: list[int]) -> OpenFiles:
    """Look at the descriptors of the processes, which must be of ids that this one may look into.

    Of more than can be looked at in time a random part is taken for the whole, so that nothing can
    be hidden behind others. A file that many of very many descriptors show may then count more
    than once.
    """
    count = _OpenFileCount(max(_MAX_LOOKS // max(len(pids), 1), _MIN_LOOKS))
    end = time.monotonic() + _MAX_SECONDS
    looked_at = 0
    for pid in random.sample(pids, len(pids)):
        if time.monotonic() > end:
            break
        count.look_at(pid)
        looked_at += 1
    unnamed = sum(count.unnamed.values()) * len(pids) / max(looked_at, 1)
    return OpenFiles(int(unnamed), tuple(count.writers[:_MAX_WRITERS]))


class _OpenFileCount:
    """The intermediate result of one count."""

    def __init__(self, most: int) -> None:
        """``most``: how many descriptors of a process are looked at."""
        self.unnamed: dict[tuple[int, int], float] = {}
        """By device and inode: bytes, times the descriptors that each one looked at stands for."""
        self.writers: list[int] = []
        self._most = most

    def look_at(self, pid: int) -> None:
        descriptors = _listing(f"/proc/{pid}/fd")
        weight = max(len(descriptors) / self._most, 1.0)
        if weight > 1:
            descriptors = random.sample(descriptors, self._most)
        writes = False
        for fd in descriptors:
            with contextlib.suppress(OSError, ValueError):  # it is closed, or the process is gone
                if self._note(f"/proc/{pid}/fd/{fd}", weight):
                    writes = writes or _is_writable(pid, fd)
        if writes:
            self.writers.append(pid)

    def _note(self, path: str, weight: float) -> bool:
        """Note a file without a name; whether it is a file on a disk at all."""
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or os.readlink(path).startswith(_NOT_ON_DISK):
            return False
        if status.st_nlink == 0:
            file, held = (status.st_dev, status.st_ino), status.st_blocks * 512 * weight
            self.unnamed[file] = min(held, self.unnamed.get(file, held))
        return True


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
