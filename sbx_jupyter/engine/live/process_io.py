"""Reads the output and writes the input of one process, on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

PIPE_CHUNK: Final = 48 * 1024
"""65,536 bytes in base64 without padding; larger chunks exceed malloc's mmap threshold."""

PTY_CHUNK: Final = 16 * 1024
_PTY_READ: Final = 4096
_LEAST_PIPE: Final = 4096
_READS_PER_WAKE: Final = 4
_DRAIN_LIMIT: Final = 1024 * 1024
"""The capacity of the pipes that the agent makes."""


class OutputReader:
    """Reads one output descriptor of a process in chunks.

    ``deliver`` gets the kind and the chunk and returns whether it can take more; ``on_end`` is
    called once, after the last chunk.
    """

    def __init__(
        self,
        fd: int,
        kind: str,
        deliver: Callable[[str, bytes], bool],
        on_end: Callable[[OutputReader], None],
    ) -> None:
        self.kind = kind
        self._fd = fd
        self._deliver = deliver
        self._on_end = on_end
        self._is_reading = False
        self._loop = asyncio.get_running_loop()
        self._read = self._read_pty if kind == "pty" else self._read_pipe

    def resume(self) -> None:
        """Read whenever there is output."""
        if self._fd >= 0 and not self._is_reading:
            self._is_reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def pause(self) -> None:
        """Stop reading; the process blocks when its pipe is full."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def drain(self) -> None:
        """Deliver what is there now, even to full subscribers, and close.

        Reads at most what a pipe can hold, so that a process that never stops writing does not
        keep this loop busy.
        """
        limit = self._available()
        while limit > 0 and self._fd >= 0:
            chunk = self._read()
            if not chunk:
                break
            limit -= len(chunk)
            self._deliver(self.kind, chunk)
        self.close()

    def control(self, request: int, argument: bytes) -> None:
        """Call ``ioctl`` on the descriptor."""
        if self._fd >= 0:
            fcntl.ioctl(self._fd, request, argument)

    def close(self) -> None:
        """Close the descriptor; ``on_end`` is not called."""
        self.pause()
        if self._fd >= 0:
            if self.kind != "pty":
                # The agent keeps the pipe open for a while, and pipe pages are limited for all
                # sandboxes together.
                with contextlib.suppress(OSError):
                    fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _LEAST_PIPE)
            os.close(self._fd)
            self._fd = -1

    def _on_readable(self) -> None:
        for _ in range(_READS_PER_WAKE):
            chunk = self._read()
            if chunk is None:
                return
            if not chunk:
                self.close()
                self._on_end(self)
                return
            if not self._deliver(self.kind, chunk) or not self._is_reading:
                return

    def _read_pipe(self) -> bytes | None:
        """Read a chunk: empty at the end, ``None`` when there is no output now."""
        try:
            return os.read(self._fd, PIPE_CHUNK)
        except BlockingIOError:
            return None

    def _read_pty(self) -> bytes | None:
        """As ``_read_pipe``; joins the 4 KiB pieces that the kernel gives."""
        pieces: list[bytes] = []
        for _ in range(PTY_CHUNK // _PTY_READ):
            try:
                piece = os.read(self._fd, _PTY_READ)
            except BlockingIOError:
                return b"".join(pieces) or None
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                piece = b""  # the last process with this terminal is gone
            if not piece:
                break
            pieces.append(piece)
        return b"".join(pieces)

    def _available(self) -> int:
        if self.kind == "pty":
            return _DRAIN_LIMIT
        count = fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4))
        return min(struct.unpack("i", count)[0], _DRAIN_LIMIT)


class InputWriter:
    """Writes to the stdin pipe or pty of a process, completely and in order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = asyncio.Lock()
        self._writable: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_closed(self) -> bool:
        return self._fd < 0

    async def write(self, data: bytes) -> None:
        """Return when the kernel has taken every byte; the process may read it later.

        Raises ``InternalError`` when no process has the other end open any more.
        """
        async with self._lock:
            view = memoryview(data)
            while view:
                if self._fd < 0:
                    raise InternalError("the input of the process is closed")
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:
                    await self._wait_writable()
                except OSError as error:
                    raise InternalError(
                        f"the process does not read its input: {error.strerror}"
                    ) from error

    def close(self) -> None:
        """Close the descriptor; a write that is still waiting fails."""
        if self._fd < 0:
            return
        self._loop.remove_writer(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._on_writable()

    async def _wait_writable(self) -> None:
        fd = self._fd
        self._writable = self._loop.create_future()
        self._loop.add_writer(fd, self._on_writable)
        try:
            await self._writable
        finally:
            self._writable = None
            if self._fd == fd:
                self._loop.remove_writer(fd)

    def _on_writable(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
