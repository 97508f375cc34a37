"""The keeper of a sandbox without a pid namespace: its parent process, outside of it.

It reaps processes, ends all of them when the agent ends, and limits their number
(``process_limit``). It also changes attributes of files for them (``attributes``), in answer to
the system calls that their filter passes on. The work for one call is short and bounded, and the
keeper does its other work between two calls, so a flood of calls slows down the sandbox only, on
whose processors the keeper runs.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.confined import descendants, setup
from sbx_jupyter.isolation.confined.attributes import Attributes
from sbx_jupyter.isolation.confined.process_limit import LOOK_INTERVAL, ProcessLimit
from sbx_jupyter.isolation.kernel import notifications

if TYPE_CHECKING:
    from typing import NoReturn

    from sbx_jupyter.isolation.zygote.order import Order

_ADMITTED: Final = b"1"


class Keeper:
    """Watches over one agent and its programs."""

    def __init__(self, agent: int, door: int, root: str, processes: int) -> None:
        """``door`` is where new programs hand in their listeners; ``root`` what they may change."""
        self._agent = agent
        self._attributes = Attributes(root)
        self._process_limit = ProcessLimit(processes)
        self._listeners: set[int] = set()
        self._poll = select.poll()
        self._door = socket.socket(fileno=door)
        self._poll.register(self._door, select.POLLIN)
        self._signals, wakeup = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll.register(self._signals, select.POLLIN)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD, signal.SIGTERM})

    def serve(self) -> None:
        """Answer until the agent ends, SIGTERM comes, or nothing else stops a fork bomb."""
        next_look = 0.0
        while True:
            for fd, events in self._poll.poll(self._until(next_look)):
                if fd == self._signals:
                    if self._is_over():
                        return
                elif fd == self._door.fileno():
                    self._open_door(events)
                elif events & select.POLLIN:
                    self._answer(fd)
                else:  # the last program of that filter ended
                    self._poll.unregister(fd)
                    self._listeners.remove(fd)
                    os.close(fd)
            if self._listeners and time.monotonic() >= next_look:
                if not self._process_limit.cut():
                    self._door.close()  # the agent sees that and ends all within, at one blow
                    return
                next_look = time.monotonic() + LOOK_INTERVAL

    def _until(self, next_look: float) -> float | None:
        """Milliseconds to wait at most: without programs and without a limit, for ever."""
        if not self._listeners or not self._process_limit.holds:
            return None
        return max(0.0, (next_look - time.monotonic()) * 1000)

    def _is_over(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            while told := os.read(self._signals, 512):
                if signal.SIGTERM in told:
                    return True
        return self._agent in descendants.reap()

    def _open_door(self, events: int) -> None:
        """Take the listener of a new program, if there may be one more."""
        if not events & select.POLLIN:  # the agent is gone
            self._poll.unregister(self._door)
            return
        fds: list[int] = []
        try:
            _, fds, _, _ = socket.recv_fds(self._door, 1, 2)
            if len(fds) == 2 and self._process_limit.has_room():
                notifications.prepare(fds[0])
                os.write(fds[1], _ADMITTED)
                listener = fds.pop(0)
                self._listeners.add(listener)
                self._poll.register(listener, select.POLLIN)
        except OSError:
            pass  # it ended, or there is no room for descriptors: it is told by the pipe's end
        finally:
            for fd in fds:
                os.close(fd)

    def _answer(self, listener: int) -> None:
        asked = notifications.receive(listener)
        if asked is not None:
            asked.answer(self._attributes.perform(asked))


def prepare(order: Order, data: str) -> str:
    """Make this process a keeper, before it forks the agent; gives the sandbox's directory.

    Raises ``OSError``.
    """
    descendants.prepare_keeper()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if order.processors:
        os.sched_setaffinity(0, order.processors)
    os.umask(0o022)
    root = setup.root_of(order, data)
    os.makedirs(root, exist_ok=True)
    return root


def keep(order: Order, agent: int, door: int, root: str) -> NoReturn:
    """Be the keeper of an agent; whatever happens, nothing below outlives this process."""
    try:
        Keeper(agent, door, root, order.processes if order.limit_processes else 0).serve()
    finally:
        descendants.end_all()
