"""The keeper of a sandbox without a pid namespace: its parent process, outside of it.

It reaps processes, ends all of them when the agent ends, and limits their number
(``process_limit``). It also changes attributes of files for them (``attributes``), sends their
signals (``signals``) and is their loopback interface (``loopback.broker``), in answer to the system
calls that their filter passes on. The work for one call is short and bounded, and the keeper
does its other work between two calls, so a flood of calls slows down the sandbox only, on
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
from typing import TYPE_CHECKING

from sbx_jupyter.agent import keeper_requests
from sbx_jupyter.isolation.confined import descendants, setup
from sbx_jupyter.isolation.confined.attributes import Attributes
from sbx_jupyter.isolation.confined.contained_paths import ContainedDirectory
from sbx_jupyter.isolation.confined.process_limit import LOOK_INTERVAL, ProcessLimit
from sbx_jupyter.isolation.confined.signals import Signals
from sbx_jupyter.isolation.kernel import notifications
from sbx_jupyter.isolation.loopback.broker import Broker

if TYPE_CHECKING:
    from typing import NoReturn

    from sbx_jupyter.isolation.zygote.order import Order


class Keeper:
    """Watches over one agent and its programs."""

    def __init__(self, agent: int, way: int, root: str, processes: int) -> None:
        """``way`` is where new programs hand in their listeners; ``root`` what they may change."""
        self._agent = agent
        tree = ContainedDirectory(root)
        self._attributes = Attributes(tree)
        self._broker = Broker(tree)
        self._sent = Signals()
        self._process_limit = ProcessLimit(processes)
        self._listeners: set[int] = set()
        self._poll = select.poll()
        self._requests = socket.socket(fileno=way)
        self._poll.register(self._requests, select.POLLIN)
        self._poll.register(self._broker, select.POLLIN)
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
                elif fd == self._requests.fileno():
                    self._take_request(events)
                elif fd == self._broker.fileno():
                    self._broker.run()
                elif events & select.POLLIN:
                    self._answer(fd)
                else:  # the last program of that filter ended
                    self._poll.unregister(fd)
                    self._listeners.remove(fd)
                    os.close(fd)
            self._broker.look()
            if self._listeners and time.monotonic() >= next_look:
                if not self._process_limit.cut():
                    self._requests.close()  # the agent sees that and ends all within, at one blow
                    return
                next_look = time.monotonic() + LOOK_INTERVAL

    def _until(self, next_look: float) -> float | None:
        """Milliseconds to wait at most: without programs and without a limit, for ever."""
        left = self._broker.timeout()
        if self._listeners and self._process_limit.holds:
            until_look = max(0.0, next_look - time.monotonic())
            left = until_look if left is None else min(left, until_look)
        return None if left is None else left * 1000

    def _is_over(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            while told := os.read(self._signals, 512):
                if signal.SIGTERM in told:
                    return True
        return self._agent in descendants.reap()

    def _take_request(self, events: int) -> None:
        """Take what the agent, or a process that becomes a program, hands in with a request."""
        if not events & select.POLLIN:  # the agent is gone
            self._poll.unregister(self._requests)
            return
        fds: list[int] = []
        try:
            asked, fds, _, _ = socket.recv_fds(self._requests, keeper_requests.SIZE, 2)
            if len(fds) == 2:
                self._admit(*keeper_requests.parse(asked), fds)
        except OSError:
            pass  # it ended, or there is no room for descriptors: it is told by the pipe's end
        finally:
            for fd in fds:
                os.close(fd)

    def _admit(self, kind: bytes, port: int, fds: list[int]) -> None:
        """Carry out a request on the first descriptor, and answer on the second.

        Takes the descriptors that it keeps out of ``fds``. Raises ``OSError``.
        """
        if kind == keeper_requests.PROGRAM:
            if not self._process_limit.has_room():
                return
            notifications.prepare(fds[0])
            os.write(fds[1], keeper_requests.DONE)
            listener = fds.pop(0)
            self._listeners.add(listener)
            self._poll.register(listener, select.POLLIN)
            return
        given = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fds.pop(0))
        try:
            if kind == keeper_requests.CONNECT:
                self._broker.dial(port, given)
            else:
                self._broker.serve_outside(port, given)
        except OSError as error:
            os.write(fds[0], keeper_requests.refusal(error))
            return
        os.write(fds[0], keeper_requests.DONE)

    def _answer(self, listener: int) -> None:
        asked = notifications.receive(listener)
        if asked is None:
            return
        if self._broker.answers(asked.call):
            self._broker.perform(asked)
        elif self._sent.answers(asked.call):
            self._sent.perform(asked)
        else:
            asked.answer(self._attributes.perform(asked))

    def close(self) -> None:
        """End the calls that wait, so that their programs can be stopped: they fail with ENOSYS."""
        for listener in self._listeners:
            os.close(listener)


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


def keep(order: Order, agent: int, way: int, root: str) -> NoReturn:
    """Be the keeper of an agent, which asks on ``way``.

    Whatever happens, nothing below outlives this process.
    """
    try:
        keeper = Keeper(agent, way, root, order.processes if order.limit_processes else 0)
        try:
            keeper.serve()
        finally:
            keeper.close()
    finally:
        descendants.end_all()
