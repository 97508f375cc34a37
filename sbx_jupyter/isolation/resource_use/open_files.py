"""Walks the processes of a sandbox and sums up what they hold."""

from __future__ import annotations

import contextlib
import os
import random
import stat
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.agent import procfs
from sbx_jupyter.isolation.kernel import syscalls
from sbx_jupyter.isolation.resource_use import in_flight, mappings
from sbx_jupyter.isolation.resource_use.file_systems import FileSystems

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LOOKS: Final = 250_000
"""Descriptors that are looked at in one count, about: a second or two of work."""

_MIN_LOOKS: Final = 256
"""Minimum of descriptors that are looked at in each process."""

_MAX_SECONDS: Final = 15.0
"""Time limit of a count, for machines that are busy with other work."""

_MOST_NAMED: Final = 100
"""Processes that an answer names."""

_MOST_THREADS: Final = 256
_MOST_TABLES: Final = 16
_KCMP_FILES: Final = 2


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """The files that the processes of a sandbox hold open; sizes in bytes."""

    unnamed_bytes: int
    """Bytes of files on a disk that have no name any more, so that no walk finds them."""

    memory_file_bytes: int = 0
    """Bytes of files in memory without a name, mapped or not."""

    unseen: int = 0
    """Descriptors in flight that could not be looked at."""

    writers: tuple[int, ...] = ()
    """Processes with a file open for writing."""

    holders: tuple[int, ...] = ()
    """Processes that hold files on a disk without a name, those that hold most first."""

    memory_of: tuple[tuple[int, int], ...] = ()
    """Processes and the bytes of memory files and sockets that they hold, the largest first."""

    socket_bytes: int = 0
    """Bytes in the buffers of all sockets in the sandbox's network."""

    shared_bytes: int = 0
    """Bytes of System V segments and of the files in ``/dev/shm``."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, from which ``from_json`` makes the same again."""
        return {name: getattr(self, name) for name in self.__slots__}

    @staticmethod
    def from_json(raw: dict[str, Any]) -> OpenFiles:
        """Read an answer of the zygote's worker."""
        return OpenFiles(
            unnamed_bytes=raw["unnamed_bytes"],
            memory_file_bytes=raw["memory_file_bytes"],
            unseen=raw["unseen"],
            writers=tuple(raw["writers"]),
            holders=tuple(raw["holders"]),
            memory_of=tuple((pid, size) for pid, size in raw["memory_of"]),
            socket_bytes=raw["socket_bytes"],
            shared_bytes=raw["shared_bytes"],
        )


@dataclass(slots=True)
class _File:
    """A file without a name."""

    size: float
    """Bytes, times the descriptors that each one looked at stands for."""

    in_memory: bool
    pids: set[int] = field(default_factory=set[int])


class OpenFilesReader:
    """One count of what processes hold, which this process must be allowed to look into.

    Of more than can be looked at in time a random part is taken for the whole, so that nothing can
    be hidden behind others. A file that many of very many descriptors show may then count more
    than once.
    """

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._most = max(_MAX_LOOKS // max(len(pids), 1), _MIN_LOOKS)
        self._file_systems = FileSystems()
        self._files: dict[tuple[Any, int], _File] = {}
        self._mapped: dict[tuple[str, int], tuple[Any, int]] = {}
        self._sockets: dict[int, int] = {}
        self._writers: list[int] = []
        self._unseen: dict[int, int] = {}

    def run(self, sockets: dict[int, int], shared: int, ignored: set[int]) -> OpenFiles:
        """Look at all processes.

        ``sockets`` has the bytes of each socket by inode; ``shared`` those of what is counted
        elsewhere. Memory files on the devices ``ignored`` are left out.
        """
        looked_at = self._look_at_all()
        scale = len(self._pids) / max(looked_at, 1)
        files = [file for key, file in self._files.items() if key[0] not in ignored]
        on_disk = [file for file in files if not file.in_memory]
        in_memory = [file for file in files if file.in_memory]
        memory_of = _sizes_by_process(in_memory)
        for inode, pid in self._sockets.items():
            memory_of[pid] += sockets.get(inode, 0)
        return OpenFiles(
            unnamed_bytes=int(sum(file.size for file in on_disk) * scale),
            memory_file_bytes=int(sum(file.size for file in in_memory) * scale),
            unseen=int(sum(self._unseen.values()) * scale),
            writers=tuple(self._writers[:_MOST_NAMED]),
            holders=tuple(pid for pid, _ in _sizes_by_process(on_disk).most_common(_MOST_NAMED)),
            memory_of=tuple((+memory_of).most_common(_MOST_NAMED)),
            socket_bytes=sum(sockets.values()),
            shared_bytes=shared,
        )

    def _look_at_all(self) -> int:
        end = time.monotonic() + _MAX_SECONDS
        looked_at = 0
        for pid in random.sample(self._pids, len(self._pids)):
            if time.monotonic() > end:
                break
            self._look_at(pid)
            looked_at += 1
        return looked_at

    def _look_at(self, pid: int) -> None:
        for thread in _tables(pid):
            self._look_at_descriptors(pid, thread)
        living = _living_thread(pid)
        with contextlib.suppress(OSError, ValueError):
            for mapping in mappings.unnamed(living):
                self._look_at_mapping(pid, living, mapping)
        # A program that unmapped all of itself still holds its own file.
        with contextlib.suppress(OSError):
            self._note(pid, os.stat(f"/proc/{living}/exe"), f"/proc/{living}/exe")

    def _look_at_descriptors(self, pid: int, thread: int) -> None:
        names = _listing(f"/proc/{thread}/fd")
        weight = max(len(names) / self._most, 1.0)
        if weight > 1:
            names = random.sample(names, self._most)
        writes = False
        for name in names:
            with contextlib.suppress(OSError, ValueError):  # it is closed, or the process is gone
                path = f"/proc/{thread}/fd/{name}"
                status = os.stat(path)
                if stat.S_ISSOCK(status.st_mode):
                    self._look_at_socket(pid, thread, name, status.st_ino)
                elif self._note(pid, status, path, weight) and not writes:
                    writes = _is_writable(thread, name)
        if writes and pid not in self._writers:
            self._writers.append(pid)

    def _look_at_socket(self, pid: int, thread: int, name: str, inode: int) -> None:
        self._sockets.setdefault(inode, pid)
        waiting = in_flight.count_waiting(f"/proc/{thread}/fdinfo/{name}")
        if waiting and inode not in self._unseen:

            def note(fd: int) -> None:
                self._note(pid, os.fstat(fd), f"/proc/self/fd/{fd}")

            self._unseen[inode] = in_flight.look_at(thread, int(name), waiting, note)

    def _look_at_mapping(self, pid: int, living: int, mapping: mappings.Mapping) -> None:
        key = self._mapped.get(mapping.key)
        if key is not None and key in self._files:
            file = self._files[key]
            file.pids.add(pid)
            if key == mapping.key:
                file.size = max(file.size, mapping.reach)
            return
        path = f"/proc/{living}/map_files/{mapping.name}"
        try:
            status = os.stat(path)
        except PermissionError:
            self._note_reach(pid, mapping)
        else:
            self._mapped[mapping.key] = status.st_dev, status.st_ino
            in_memory = self._file_systems.is_in_memory(status.st_dev, path)
            if not (in_memory and mapping.is_segment):  # segments are counted by themselves
                self._note(pid, status, path)

    def _note_reach(self, pid: int, mapping: mappings.Mapping) -> None:
        """Only root may look at a mapped file: count what the mapping shows of it.

        The mapped part of a file in memory counts as memory of the process already.
        """
        major, _, minor = mapping.key[0].partition(":")
        device = os.makedev(int(major, 16), int(minor, 16))
        is_seen = (device, mapping.key[1]) in self._files
        if not is_seen and device not in _memory_devices():
            self._mapped[mapping.key] = mapping.key
            self._files[mapping.key] = _File(mapping.reach, in_memory=False, pids={pid})

    def _note(self, pid: int, status: os.stat_result, path: str, weight: float = 1.0) -> bool:
        """Note a file if it has no name; whether it is a file on a disk at all."""
        if not stat.S_ISREG(status.st_mode):
            return False
        in_memory = self._file_systems.is_in_memory(status.st_dev, path)
        if status.st_nlink == 0:
            key, size = (status.st_dev, status.st_ino), status.st_blocks * 512 * weight
            file = self._files.setdefault(key, _File(size, in_memory))
            file.size = min(size, file.size)
            file.pids.add(pid)
        return not in_memory


def _sizes_by_process(files: list[_File]) -> Counter[int]:
    sizes: Counter[int] = Counter()
    for file in files:
        for pid in file.pids:
            sizes[pid] += int(file.size)
    return sizes


def _memory_devices() -> set[int]:
    """The device of memory files, which the kernel mounts for itself."""
    fd = os.memfd_create("probe", os.MFD_CLOEXEC)
    try:
        return {os.fstat(fd).st_dev}
    finally:
        os.close(fd)


def _living_thread(pid: int) -> int:
    """A thread of a process that has its memory: the first one may have ended before others."""
    for thread in (pid, *map(int, _listing(f"/proc/{pid}/task"))):
        found = procfs.read_stat(thread)
        if found is not None and found.state not in ("Z", "X"):
            return thread
    return pid


def _tables(pid: int) -> Iterator[int]:
    """One thread for each table of descriptors in a process; threads may have tables of their own.

    Threads of a process can be named in ``/proc`` by their own numbers.
    """
    threads = [int(name) for name in _listing(f"/proc/{pid}/task")]
    if len(threads) > _MOST_THREADS:
        threads = [pid, *random.sample(threads, _MOST_THREADS)]
    found: list[int] = []
    for thread in threads or [pid]:
        if len(found) < _MOST_TABLES and not any(_share_table(thread, one) for one in found):
            found.append(thread)
            yield thread


def _share_table(thread: int, other: int) -> bool:
    try:
        return syscalls.call("kcmp", thread, other, _KCMP_FILES, 0, 0) == 0
    except OSError:
        return False


def _is_writable(thread: int, fd: str) -> bool:
    for line in Path(f"/proc/{thread}/fdinfo/{fd}").read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def _listing(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
