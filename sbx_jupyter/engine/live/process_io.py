"""Reads the output and writes the input of one process.

Pipes are used in a thread of the sandbox (``pipes.py``), terminals on the event loop.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.engine.live.pipes import CAPACITY, PipeInput, PipeOutput
from sbx_jupyter.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.engine.live.pipes import PipeThread

PTY_CHUNK: Final = 16 * 1024
_PTY_READ: Final = 4096
_READS_PER_WAKE: Final = 4


class OutputReader(Protocol):
    """Reads one output descriptor of a process in chunks.

    ``deliver`` gets the kind and the chunk and returns whether it can take more; ``on_end`` is
    called once, after the last chunk.
    """

    def resume(self) -> None:
        """Read whenever there is output."""
        ...

    def pause(self) -> None:
        """Stop reading soon; the process blocks when its pipe is full."""
        ...

    def drain(self) -> None:
        """Deliver the output that is there now, even to full subscribers, then end."""
        ...

    def close(self) -> None:
        """Close the descriptor; ``on_end`` is not called."""
        ...


class PipeReader:
    """Reads a pipe in the thread of its sandbox; see ``OutputReader``."""

    def __init__(
        self,
        thread: PipeThread,
        fd: int,
        kind: str,
        deliver: Callable[[str, bytes], bool],
        on_end: Callable[[OutputReader], None],
    ) -> None:
        self._kind = kind
        self._deliver = deliver
        self._on_end = on_end
        self._thread = thread
        self._output = PipeOutput(thread, fd, self._on_read)
        self._loop = asyncio.get_running_loop()
        self._is_waiting = False
        self._is_started = False
        self._is_drained = False
        self._is_open = True

    def resume(self) -> None:
        self._output.is_wanted = True
        if self._output.chunks or self._output.has_ended:
            self._loop.call_soon(self._pass_on)
        else:
            self._read_on()

    def pause(self) -> None:
        self._output.is_wanted = False

    def drain(self) -> None:
        self._is_drained = self._is_waiting = True
        if self._output.has_ended:
            self._loop.call_soon(self._pass_on)
        elif self._is_open:
            self._thread.do(self._output.drain)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            # Deliver what was read: the next engine cannot read it again.
            while self._output.chunks:
                self._deliver(self._kind, self._output.chunks.popleft())
            self._thread.do(self._output.close)

    def _read_on(self) -> None:
        if not self._is_open or self._is_waiting or self._is_drained:
            return
        self._is_waiting = True
        if self._is_started:
            self._output.go_on()
        else:
            self._is_started = True
            self._thread.do(self._output.start)

    def _on_read(self) -> None:
        self._is_waiting = False
        self._pass_on()

    def _pass_on(self) -> None:
        if not self._is_open:
            return
        # In this order: the thread adds chunks, then notes the end.
        has_ended, chunks = self._output.has_ended, self._output.chunks
        while chunks and (self._output.is_wanted or self._is_drained):
            self._deliver(self._kind, chunks.popleft())
        if chunks:
            return
        if has_ended:
            self._is_open = False
            self._on_end(self)
        elif self._output.is_wanted:
            self._read_on()


class PtyReader:
    """Reads the master side of a pseudo-terminal; see ``OutputReader``."""

    def __init__(
        self,
        fd: int,
        deliver: Callable[[str, bytes], bool],
        on_end: Callable[[OutputReader], None],
    ) -> None:
        self._fd = fd
        self._deliver = deliver
        self._on_end = on_end
        self._is_reading = False
        self._loop = asyncio.get_running_loop()

    def resume(self) -> None:
        if self._fd >= 0 and not self._is_reading:
            self._is_reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def drain(self) -> None:
        # A bound, so that a process that never stops writing does not keep this loop busy.
        limit = CAPACITY
        while limit > 0 and self._fd >= 0:
            chunk = self._read()
            if not chunk:
                break
            limit -= len(chunk)
            self._deliver("pty", chunk)
        self.close()
        self._on_end(self)

    def control(self, request: int, argument: bytes) -> None:
        """Call ``ioctl`` on the descriptor."""
        if self._fd >= 0:
            fcntl.ioctl(self._fd, request, argument)

    def close(self) -> None:
        self.pause()
        if self._fd >= 0:
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
            if not self._deliver("pty", chunk) or not self._is_reading:
                return

    def _read(self) -> bytes | None:
        """A chunk of joined 4 KiB pieces: empty at the end, ``None`` without output now."""
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


class InputWriter:
    """Writes to the stdin pipe or pty of a process, completely and in order."""

    def __init__(self, fd: int, thread: PipeThread | None = None) -> None:
        """``thread`` is there for a pipe."""
        self._fd = fd
        self._pipe = None if thread is None else PipeInput(fd)
        self._thread = thread
        self._is_closed = False
        self._lock = asyncio.Lock()
        self._writable: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def write(self, data: bytes) -> None:
        """Return when the kernel has taken every byte; the process may read it later.

        Raises ``InternalError`` when no process has the other end open any more.
        """
        async with self._lock:
            view = memoryview(data)
            while view:
                if self._is_closed:
                    raise InternalError("the input of the process is closed")
                try:
                    view = view[await self._write(view) :]
                except BlockingIOError:
                    await self._wait_writable()
                except OSError as error:
                    raise InternalError(
                        f"the process does not read its input: {error.strerror}"
                    ) from error

    def close(self) -> None:
        """Close the descriptor; a write that is still waiting fails."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._writable is not None:
            self._loop.remove_writer(self._number)
            if not self._writable.done():
                self._writable.set_result(None)
        if self._thread is None or self._pipe is None:
            os.close(self._fd)
        else:
            self._thread.do(self._pipe.close)

    @property
    def _number(self) -> int:
        return self._fd if self._pipe is None else self._pipe.fd

    async def _write(self, view: memoryview) -> int:
        if self._thread is None or self._pipe is None:
            return os.write(self._fd, view)
        return await self._thread.run(partial(self._pipe.write, view))

    async def _wait_writable(self) -> None:
        if self._is_closed:
            return
        fd = self._number
        self._writable = self._loop.create_future()
        self._loop.add_writer(fd, self._on_writable)
        try:
            await self._writable
        finally:
            self._writable = None
            if not self._is_closed:
                self._loop.remove_writer(fd)

    def _on_writable(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
