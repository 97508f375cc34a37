"""Counters of the kernel, by perf_event_open(2): nothing has to be installed.

They count what a thread does, and what the threads and processes do that it starts, the latter
until they run another program. Whom they count does not wait for a reader and is never stopped, as
``ptrace`` would stop it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sbx_jupyter.isolation.kernel import call_numbers, syscalls

_NAMES: Final = {number: name for name, number in call_numbers.NUMBERS[call_numbers.HERE].items()}
_MOVES_BYTES: Final = frozenset(
    {
        *("read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg"),
        *("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg"),
        *("sendfile", "splice", "tee", "vmsplice", "copy_file_range"),
    }
)
"""Calls that return how many bytes they moved."""

_HARDWARE, _INSTRUCTIONS = 0, 1
_TRACEPOINT: Final = 2
_SAMPLES: Final = 1 << 1 | 1 << 6 | 1 << 10
"""A record has the thread, the event's id and what the tracepoint says."""
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR, _REMOVE_ON_EXEC = 1 << 1, 1 << 5, 1 << 6, 1 << 36
_ATTRIBUTES: Final = "=IIQQQQQ"
_ATTRIBUTES_SIZE: Final = 128
_CLOSE_ON_EXEC: Final = 8
_SET_OUTPUT, _GET_ID = 0x2405, 0x80082407

_LOST, _SAMPLE = 2, 9
_HEADER: Final = struct.Struct("=IHH")
_CALL: Final = struct.Struct("=IIQI8xqq")
"""Process, thread, event, size of the rest; after its common fields the call and its result."""
_POSITIONS: Final = 1024
"""Where the first page of a buffer says how far it is written and read."""
_BUFFER_SIZE: Final = 1 << 20
_MOST_OF_A_RECORD: Final = 256

_FSCONFIG_CREATE: Final = 6


class NoCountersError(Exception):
    """The kernel does not count this here; the message says why."""


@dataclass(slots=True)
class Calls:
    """What some threads asked of the kernel."""

    by_name: Counter[str] = field(default_factory=Counter[str])
    bytes_moved: int = 0

    def add(self, number: int, result: int) -> None:
        name = _NAMES.get(number, str(number))
        self.by_name[name] += 1
        if name in _MOVES_BYTES and result > 0:
            self.bytes_moved += result


class CallCounter:
    """Counts the system calls that ended, by the group that the caller belongs to.

    Raises ``NoCountersError`` where the kernel has no such tracepoint, or not for this user.
    """

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        """Count for groups of processes, by their ids."""
        event = _tracepoint("raw_syscalls/sys_exit")
        self._buffers: dict[int, _Buffer] = {}
        self._groups: dict[int, str] = {}
        with contextlib.ExitStack() as stack:
            for group, thread in _threads(groups):
                for processor in _processors():
                    fd = _open(_TRACEPOINT, event, thread, processor, _SAMPLES)
                    stack.callback(os.close, fd)
                    if processor in self._buffers:
                        fcntl.ioctl(fd, _SET_OUTPUT, self._buffers[processor].fd)
                    else:
                        self._buffers[processor] = _Buffer(fd)
                        stack.callback(self._buffers[processor].close)
                    event_id = fcntl.ioctl(fd, _GET_ID, bytes(8))
                    self._groups[int.from_bytes(event_id, "little")] = group
            self._opened = stack.pop_all()

    def close(self) -> None:
        self._opened.close()

    def take(self) -> dict[str, Calls]:
        """The calls since the last look, by group.

        Raises ``BufferError`` when they were more than the buffers hold.
        """
        found = {group: Calls() for group in self._groups.values()}
        for buffer in self._buffers.values():
            for event, number, result in buffer.records():
                found[self._groups[event]].add(number, result)
        return found


class InstructionCounter:
    """Counts instructions outside the kernel, by group.

    Raises ``NoCountersError`` where the processor has no counter, as in many virtual machines.
    """

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        """Count for groups of processes, by their ids."""
        self._opened: list[tuple[str, int]] = []
        try:
            for group, thread in _threads(groups):
                self._opened.append((group, _open(_HARDWARE, _INSTRUCTIONS, thread, -1, 0)))
        except NoCountersError:
            self.close()
            raise

    def close(self) -> None:
        for _, fd in self._opened:
            os.close(fd)

    def read(self) -> Counter[str]:
        """The instructions since the counter was made."""
        found = Counter[str]()
        for group, fd in self._opened:
            found[group] += int.from_bytes(os.read(fd, 8), "little")
        return found


def is_asleep(pid: int) -> bool:
    """Whether all threads of a process wait for something, and not for a disk."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] not in "SZ":
                    return False
    except (FileNotFoundError, ProcessLookupError):
        return False
    return True


class _Buffer:
    """The records of one processor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, mmap.PAGESIZE + _BUFFER_SIZE)

    def close(self) -> None:
        self._map.close()

    def records(self) -> Iterator[tuple[int, int, int]]:
        """Event, call and result of each; what was read is gone."""
        written, read = struct.unpack_from("=QQ", self._map, _POSITIONS)
        # The kernel notes what it lost only where a later record has space.
        is_full = written - read > _BUFFER_SIZE - _MOST_OF_A_RECORD
        while read < written:
            kind, _, size = _HEADER.unpack(self._bytes(read, _HEADER.size))
            if kind == _LOST or is_full:
                raise BufferError("more system calls than the buffer holds")
            if kind == _SAMPLE:
                content = self._bytes(read + _HEADER.size, _CALL.size)
                _, _, event, _, number, result = _CALL.unpack(content)
                if number >= 0:  # the first return of a new process belongs to no call of its own
                    yield event, number, result
            read += size
        struct.pack_into("=Q", self._map, _POSITIONS + 8, read)

    def _bytes(self, position: int, size: int) -> bytes:
        start = mmap.PAGESIZE + position % _BUFFER_SIZE
        found = self._map[start : start + size]
        return found + self._map[mmap.PAGESIZE : mmap.PAGESIZE + size - len(found)]


def _threads(groups: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, int]]:
    for group, pids in groups.items():
        for pid in pids:
            for thread in os.listdir(f"/proc/{pid}/task"):
                yield group, int(thread)


def _open(kind: int, event: int, thread: int, processor: int, samples: int) -> int:
    flags = _INHERIT | _REMOVE_ON_EXEC
    if kind == _HARDWARE:
        flags |= _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    fields = kind, _ATTRIBUTES_SIZE, event, 1 if samples else 0, samples, 0, flags
    attributes = struct.pack(_ATTRIBUTES, *fields).ljust(_ATTRIBUTES_SIZE, b"\0")
    try:
        return syscalls.call("perf_event_open", attributes, thread, processor, -1, _CLOSE_ON_EXEC)
    except OSError as error:
        if kind == _HARDWARE and error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
            raise NoCountersError("the processor has no counter that the kernel knows") from error
        raise NoCountersError(f"the kernel does not let us count: {error}") from error


def _processors() -> list[int]:
    """All that are online: a program may be moved to any of them."""
    found: list[int] = []
    with open("/sys/devices/system/cpu/online") as file:
        for part in file.read().strip().split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    return found


def _tracepoint(name: str) -> int:
    """The number of a tracepoint, from a file system that needs to be mounted nowhere."""
    try:
        with contextlib.ExitStack() as stack:
            context = syscalls.call("fsopen", b"tracefs", 0)
            stack.callback(os.close, context)
            syscalls.call("fsconfig", context, _FSCONFIG_CREATE, None, None, 0)
            root = syscalls.call("fsmount", context, 0, 0)
            stack.callback(os.close, root)
            file = os.open(f"events/{name}/id", os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)
            stack.callback(os.close, file)
            return int(os.read(file, 32))
    except OSError as error:
        raise NoCountersError(f"the kernel shows no {name}: {error}") from error
