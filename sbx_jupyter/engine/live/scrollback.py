"""The scrollback of a pty: its last output, in a ring file that outlives the engine."""

from __future__ import annotations

import logging
import os
import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.live import freeing
from sbx_jupyter.engine.live.subscriptions import Output

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)

_HEADER: Final = struct.Struct("<8sQQQ")
_MAGIC: Final = b"sbxring1"
_DATA_OFFSET: Final = 4096
_REPLAY_CHUNK: Final = 16 * 1024
_BEHIND_MARGIN: Final = 128 * 1024
"""Bytes that one wake-up of the reader may add before ``is_behind`` is checked again."""

SCROLLBACK_SIZE: Final = 1024 * 1024


class Scrollback:
    """A ring of the last bytes of a pty, each byte numbered from the pty's first.

    The data is written before the header, so a crash between the two loses the newest chunk but
    shows no wrong one. Writes go to the page cache and take microseconds. If a write fails, the
    ring is emptied and the terminal continues.
    """

    def __init__(self, path: Path, fd: int, capacity: int, oldest: int, end: int) -> None:
        self._path = path
        self._fd = fd
        self.capacity = capacity
        self.oldest = oldest
        self.end = end

    @classmethod
    def create(cls, path: Path, capacity: int = SCROLLBACK_SIZE) -> Scrollback:
        """Create an empty ring, replacing an existing file; raises ``OSError``."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        return cls(path, os.open(path, flags, 0o600), capacity, 0, 0)

    @classmethod
    def open(cls, path: Path, capacity: int = SCROLLBACK_SIZE) -> Scrollback:
        """Open the ring of an earlier engine, or create a new one; raises ``OSError``."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return cls.create(path, capacity)
        header = os.pread(fd, _HEADER.size, 0)
        if len(header) == _HEADER.size:
            magic, size, oldest, end = _HEADER.unpack(header)
            if magic == _MAGIC and size > 0 and oldest <= end:
                return cls(path, fd, size, oldest, end)
        os.close(fd)
        return cls.create(path, capacity)

    @classmethod
    def in_memory(cls, path: Path, capacity: int) -> Scrollback:
        """An empty ring that ends with the engine, for a disk that has no room for one."""
        return cls(path, os.memfd_create("sbx-scrollback"), capacity, 0, 0)

    def append(self, chunk: bytes) -> None:
        """Add output at the end; it overwrites the oldest."""
        self.end += len(chunk)
        kept = chunk[-self.capacity :]
        try:
            self._write(self.end - len(kept), kept)
            self.oldest = max(self.oldest, self.end - self.capacity)
            self._write_header()
        except OSError as error:
            _log.warning("scrollback %s lost %d bytes: %s", self._path, len(chunk), error)
            self.oldest = self.end

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``position``, which is between ``oldest`` and ``end``.

        Empty after the ring is closed.
        """
        if self._fd < 0:
            return b""
        size = min(size, self.end - position)
        offset = position % self.capacity
        first = min(size, self.capacity - offset)
        data = os.pread(self._fd, first, _DATA_OFFSET + offset)
        if size > first:
            data += os.pread(self._fd, size - first, _DATA_OFFSET)
        return data

    def replay(self, position: int) -> ScrollbackReplay:
        """Replay from ``position``, or from the oldest byte if that is later."""
        return ScrollbackReplay(self, min(max(position, self.oldest), self.end))

    def close(self) -> None:
        """Close the file; it stays for the next engine."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Close and delete the file, whose blocks a thread frees."""
        self._path.unlink(missing_ok=True)
        if self._fd >= 0:
            freeing.close(self._fd)
            self._fd = -1

    def _write(self, position: int, chunk: bytes) -> None:
        offset = position % self.capacity
        first = self.capacity - offset
        _write_at(self._fd, chunk[:first], _DATA_OFFSET + offset)
        if len(chunk) > first:
            _write_at(self._fd, chunk[first:], _DATA_OFFSET)

    def _write_header(self) -> None:
        header = _HEADER.pack(_MAGIC, self.capacity, self.oldest, self.end)
        _write_at(self._fd, header, 0)


class ScrollbackReplay:
    """Reads a scrollback for one subscriber, until that has caught up with new output."""

    def __init__(self, scrollback: Scrollback, position: int) -> None:
        self._scrollback = scrollback
        self._position = position

    @property
    def is_behind(self) -> bool:
        """Whether more output would overwrite what was not replayed yet."""
        ring = self._scrollback
        margin = min(_BEHIND_MARGIN, ring.capacity // 4)
        return ring.end - self._position > ring.capacity - margin and ring.oldest < ring.end

    def next(self) -> Output | None:
        """The next kept chunk, or ``None`` when there is no more."""
        ring = self._scrollback
        self._position = max(self._position, ring.oldest)
        if self._position >= ring.end:
            return None
        output = Output("pty", ring.read(self._position, _REPLAY_CHUNK), self._position)
        self._position += len(output.chunk)
        return output if output.chunk else None


def _write_at(fd: int, chunk: bytes, offset: int) -> None:
    view = memoryview(chunk)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
