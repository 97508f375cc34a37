"""Blocks of host ids, one for each sandbox of all engines of root on a machine.

The registry is one file. A block is taken by a kernel lock on one byte of it, which is held as long
as some process has the lock's descriptor open; a process that dies leaves no lock. The byte is
set until the block is given back, so a block whose holder was killed is known, and is not given out
while a process lives in it. Standard library only, for the zygote.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import procfs
from sbx_jupyter.errors import see
from sbx_jupyter.isolation.ids.local_ids import LocalIds
from sbx_jupyter.isolation.kernel import users

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE: Final = users.RANGE
REGISTRY: Final = "/run/sbx-jupyter/id-blocks"

_LOCKS_OF_NSPAWN: Final = "/run/systemd/nspawn-uid"
"""systemd-nspawn takes blocks of the same size from the same range, with a file for each."""

_F_OFD_SETLK: Final = 37
_RANDOM_TRIES: Final = 64
_FREE: Final = b"\0"
_TAKEN: Final = b"\1"
_HELD: Final = (errno.EAGAIN, errno.EACCES)


@dataclass(frozen=True, slots=True)
class IdRange:
    """Host ids that sandboxes may get, both ends included."""

    first: int
    last: int

    @staticmethod
    def parse(text: str) -> IdRange:
        """Read ``"FIRST-LAST"``. Raises ``ValueError`` where no block fits in."""
        first, _, last = text.partition("-")
        if not (first.isdecimal() and last.isdecimal()):
            raise ValueError(f"{text!r} is not of the form FIRST-LAST")
        found = IdRange(int(first), int(last))
        if found.first < SIZE or found.last >= 2**32 - 1 or not found.blocks():
            raise ValueError(
                f"{text!r} has no block of {SIZE} ids that starts at a multiple of {SIZE}, after "
                "the ids of the machine's own users"
            )
        return found

    def blocks(self) -> range:
        """The numbers of the blocks that fit in; block ``n`` begins at the id ``n * SIZE``."""
        return range(-(-self.first // SIZE), (self.last + 1) // SIZE)


CONTAINER_IDS: Final = IdRange(524288, 1879048191)
"""Documented for containers by systemd: https://systemd.io/UIDS-GIDS."""


class NoBlockLeftError(Exception):
    """Every block of ids is in use."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block that is taken as long as ``lock`` is open in some process."""

    base: int
    """The host id of the sandbox's root."""
    lock: int


class Blocks:
    """Takes blocks from the machine's registry."""

    def __init__(self, ids: IdRange, local: LocalIds, registry: str = REGISTRY) -> None:
        """Open the registry, or make it. Raises ``OSError`` where it cannot be used."""
        self._local = local
        self._registry = registry
        self._extents = users.extents_of_this_namespace()
        self._numbers = ids.blocks()
        self._ids = ids
        folder = Path(registry).parent
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        _check_own(os.lstat(folder), str(folder))
        os.close(self._open())
        if not any(users.contains(self._extents, n * SIZE, SIZE) for n in self._numbers):
            raise OSError(errno.ERANGE, f"this container has no ids from {ids.first} on")

    def take(self) -> Block:
        """Take a block that nobody has. Raises ``NoBlockLeftError``, ``OSError``."""
        lock = self._open()
        try:
            for number in self._candidates():
                if self._is_ours(number) and _try_lock(lock, number):
                    if os.pread(lock, 1, number) != _TAKEN or not _has_processes(number):
                        os.pwrite(lock, _TAKEN, number)
                        return Block(number * SIZE, lock)
                    _unlock(lock, number)
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        raise NoBlockLeftError(
            f"every block of {SIZE} host ids from {self._ids.first} to {self._ids.last} is in use "
            "by a sandbox or belongs to a user of this machine; c.SbxEngine.host_ids can give more"
            f"{see('threat-model')}"
        )

    def retake(self, base: int) -> Block | None:
        """Take the block of a sandbox that lives; None when its lock is held, as it should be.

        Raises ``OSError``.
        """
        lock = self._open()
        if base % SIZE == 0 and base > 0 and _try_lock(lock, base // SIZE):
            os.pwrite(lock, _TAKEN, base // SIZE)
            return Block(base, lock)
        os.close(lock)
        return None

    def _candidates(self) -> Iterator[int]:
        # By chance, since engines in other containers may have a registry of their own, and so
        # that a block rests before it is used again.
        for _ in range(_RANDOM_TRIES):
            yield random.choice(self._numbers)
        yield from self._numbers

    def _is_ours(self, number: int) -> bool:
        base = number * SIZE
        return (
            users.contains(self._extents, base, SIZE)
            and not self._local.overlap(base, SIZE)
            and not os.path.lexists(f"{_LOCKS_OF_NSPAWN}/{base}")
        )

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._registry, flags, 0o600)
        try:
            _check_own(os.fstat(fd), self._registry)
        except OSError:
            os.close(fd)
            raise
        return fd


def give_back(block: Block) -> None:
    """Say in the registry that no process lives in a block any more. Raises ``OSError``."""
    os.pwrite(block.lock, _FREE, block.base // SIZE)


def open_blocks(host_ids: list[int], local_ids: list[int]) -> Blocks:
    """The machine's registry, as a zygote is asked for it: see ``IdRange`` and ``LocalIds``."""
    first, last = host_ids
    return Blocks(IdRange(first, last), LocalIds(known=local_ids))


def _check_own(status: os.stat_result, path: str) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise OSError(errno.EPERM, "belongs to somebody else, or others may write", path)


def _try_lock(fd: int, number: int) -> bool:
    # Of the open file and not of the process, so that it can be handed over.
    record = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
    try:
        fcntl.fcntl(fd, _F_OFD_SETLK, record)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


def _unlock(fd: int, number: int) -> None:
    record = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, number, 1, 0)
    fcntl.fcntl(fd, _F_OFD_SETLK, record)


def _has_processes(number: int) -> bool:
    """Whether the ids of a living process begin in a block, which takes milliseconds to find out.

    The first process of a sandbox lives as long as the others, and has the map of the block.
    """
    own = _map_of("self")
    for name in os.listdir("/proc"):
        if not name.isdecimal() or (found := _map_of(name)) == own:
            continue
        starts = (int(row.split()[1]) // SIZE for row in found.splitlines())
        if number in starts and procfs.start_time_of(int(name)) is not None:
            return True
    return False


def _map_of(name: str) -> str:
    try:
        return Path("/proc", name, "uid_map").read_text()
    except OSError:
        return ""  # it has ended
