"""Reads and writes the pipes of one sandbox's processes, in a thread of its own.

The kernel holds the lock of a pipe while it copies from or to the memory of a program, and any
other use of the pipe waits meanwhile, also with ``O_NONBLOCK``. A program can make such a copy take
seconds: its memory may have to be reclaimed first, or read from a busy disk. That may delay other
pipes of the same sandbox, but neither the event loop nor another sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import select
import struct
import termios
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from sbx_jupyter.engine.live import descriptors

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_log = logging.getLogger(__name__)

PIPE_CHUNK: Final = 32 * 1024
"""The most that the interface allows (3.5)."""

CAPACITY: Final = 1024 * 1024
"""The capacity of the pipes that the agent makes."""

_LEAST_PIPE: Final = 4096
_READS_PER_WAKE: Final = 16
_IDLE: Final = 10.0
"""Seconds after which a thread without pipes ends."""

_STOP_PATIENCE: Final = 0.1

_ONCE: Final = select.EPOLLIN | select.EPOLLONESHOT


class PipeThread:
    """Runs jobs in order, and reads pipes when there is something in them.

    The thread starts with the first job, and ends when there was nothing to do for a while.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], object]] = deque()
        self._pipes: dict[int, PipeOutput] = {}
        self._epoll: select.epoll | None = None
        self._wakener = -1
        self._busy = threading.Lock()
        self.is_stopped = False

    def stop(self) -> None:
        """Read nothing from now on: the next engine does.

        A read that goes on is waited for, but not long: a program may hold it up.
        """
        waited = self._busy.acquire(timeout=_STOP_PATIENCE)
        self.is_stopped = True
        if waited:
            self._busy.release()
        with self._lock:
            if self._epoll is not None:  # the thread then ends with its last pipe
                os.eventfd_write(self._wakener, 1)

    def do(self, job: Callable[[], object]) -> None:
        """Run ``job`` in the thread."""
        with self._lock:
            self._jobs.append(job)
            if self._epoll is None:
                self._epoll = select.epoll()
                self._wakener = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                self._epoll.register(self._wakener, select.EPOLLIN)
                work = threading.Thread(target=self._work, args=(self._epoll,), daemon=True)
                work.name = "sbx-pipes"
                work.start()
            os.eventfd_write(self._wakener, 1)

    async def run(self, job: Callable[[], T]) -> T:
        """Run ``job`` in the thread and return its result, or raise its error."""
        done: asyncio.Future[T] = self._loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                # Without an error this is what ``job`` returned, which may be None.
                done.set_result(result)  # pyright: ignore[reportArgumentType]

        def work() -> None:
            try:
                result = job()
            except OSError as error:
                self.tell(settle, None, error)
            else:
                self.tell(settle, result, None)

        self.do(work)
        return await done

    def tell(self, callback: Callable[..., object], *values: object) -> None:
        """Call back on the event loop, unless that has ended; for the thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *values)

    def _work(self, epoll: select.epoll) -> None:
        while True:
            patience = 0.0 if self.is_stopped else _IDLE
            events = epoll.poll(None if self._pipes else patience)
            if not events and self._has_ended(epoll):
                return
            for fd, _ in events:
                if fd == self._wakener:
                    self._run_jobs()
                elif (pipe := self._pipes.get(fd)) is not None:
                    with self._busy:
                        pipe.read()

    def _run_jobs(self) -> None:
        with self._lock:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wakener)
            jobs = list(self._jobs)
            self._jobs.clear()
        for job in jobs:
            try:
                with self._busy:
                    job()
            except OSError:  # such as too many descriptors in the machine
                _log.exception("a pipe of a sandbox cannot be used")

    def _has_ended(self, epoll: select.epoll) -> bool:
        with self._lock:
            if self._jobs:
                return False
            epoll.close()
            os.close(self._wakener)
            self._epoll = None
            return True

    def add(self, pipe: PipeOutput, fd: int) -> None:
        """Wait for output once; for the thread."""
        assert self._epoll is not None
        self._pipes[fd] = pipe
        self._epoll.register(fd, _ONCE)

    def wait_again(self, fd: int) -> None:
        """Wait for output once more; for any thread, and for a pipe that is not closed."""
        assert self._epoll is not None
        self._epoll.modify(fd, _ONCE)

    def remove(self, fd: int) -> None:
        """Close a pipe; for the thread."""
        if self._pipes.pop(fd, None) is not None and self._epoll is not None:
            self._epoll.unregister(fd)
        # The agent keeps the pipe open for a while, and pipe pages are limited for all sandboxes
        # together.
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _LEAST_PIPE)
        os.close(fd)


class PipeOutput:
    """One output pipe of a process, read in batches.

    All methods but ``go_on`` are for the thread.
    """

    def __init__(self, thread: PipeThread, fd: int, on_read: Callable[[], None]) -> None:
        """``on_read`` is called on the event loop when there are chunks, or the end, or when
        there is output that is not wanted.

        After it was called without the end, nothing is read until ``go_on``.
        """
        self.chunks: deque[bytes] = deque()
        """Output that was read; the event loop takes it out."""
        self.has_ended = False
        self.is_wanted = False
        """Whether output is read when there is some; the event loop says so."""
        self._thread = thread
        self._fd = fd
        self._on_read = on_read
        self._is_own = False

    def start(self) -> None:
        """Read when there is output."""
        if self._fd >= 0:
            self._make_own()
            self._thread.add(self, self._fd)

    def go_on(self) -> None:
        """Read when there is output next."""
        self._thread.wait_again(self._fd)

    def read(self) -> None:
        """Deliver the output that is there, up to a few chunks; close the pipe at its end.

        Output that nobody wants any more stays in the pipe, where the next engine finds it.
        """
        if self.is_wanted:
            self._take(_READS_PER_WAKE * PIPE_CHUNK)
        else:
            self._thread.tell(self._on_read)

    def drain(self) -> None:
        """Deliver the output that is there now, and close.

        Reads at most what a pipe can hold, so that a process that never stops writing does not
        keep the thread busy.
        """
        if self._fd >= 0:
            self._make_own()
            (there,) = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)))
            self._take(min(there, CAPACITY), is_last=True)

    def close(self) -> None:
        """Close the pipe and deliver nothing more."""
        if self._fd >= 0:
            self._thread.remove(self._fd)
            self._fd = -1

    def _take(self, limit: int, *, is_last: bool = False) -> None:
        is_new = False
        while limit > 0 and not self._thread.is_stopped:
            try:
                chunk = os.read(self._fd, PIPE_CHUNK)
            except BlockingIOError:
                break
            if not chunk:
                is_last = True
                break
            limit -= len(chunk)
            self.chunks.append(chunk)
            is_new = True
        if is_last:
            self.close()
            self.has_ended = True
        if is_new or is_last:
            self._thread.tell(self._on_read)
        elif not self._thread.is_stopped:
            self.go_on()

    def _make_own(self) -> None:
        if not self._is_own:
            self._is_own = True
            self._fd = descriptors.own_description(self._fd, os.O_RDONLY)


class PipeInput:
    """The pipe that a process reads its input from; its methods are for the thread."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._is_own = False

    def write(self, data: memoryview) -> int:
        """Write what there is room for; gives its size. Raises ``OSError``."""
        if not self._is_own:
            self._is_own = True
            self.fd = descriptors.own_description(self.fd, os.O_WRONLY)
        return os.write(self.fd, data)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.fd)
