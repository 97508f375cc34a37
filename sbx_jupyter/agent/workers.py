"""Runs long operations in separate processes, so that the agent can answer meanwhile.

The agent first tries an operation on a tree itself for ``TIME_BUDGET`` seconds. If that needs
longer, it raises ``BudgetExceeded``, and a fork of the agent, the worker, continues with what is
left. The worker sends one complete message on a separate socket, which the agent passes on.
Processes of the sandbox can kill a worker, but cannot trace it or send it messages.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.agent import system, wire
from sbx_jupyter.errors import InternalError, ResourceExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from sbx_jupyter.agent.operation import Body

TIME_BUDGET: Final = 0.02
"""Seconds that the agent works on one operation before it gives it to a worker."""

MAX_WORKERS: Final = 4
MAX_QUEUED: Final = 64
_SUCCESS: Final = b"+"
_FAILURE: Final = b"-"
_CHECK_EVERY: Final = 256
"""Steps between two looks at the clock."""


class BudgetExceeded(Exception):
    """The operation needs a worker."""


class TimeBudget:
    """The time limit of the operation that runs now; a worker has none."""

    def __init__(self) -> None:
        self._deadline: float | None = None
        self._steps = 0
        self.is_lifted = False
        """Whether there is no limit: in a worker, for which nobody waits."""

    def begin(self) -> None:
        """Start the clock for one operation."""
        self._deadline = time.monotonic() + TIME_BUDGET
        self._steps = 0

    def pass_over(self) -> None:
        """Work on one operation without a limit, for which no worker can be had."""
        self._deadline = None

    def lift(self) -> None:
        """Work without a limit from here on."""
        self._deadline = None
        self.is_lifted = True

    def step(self) -> None:
        """Note a small piece of work. Raises ``BudgetExceeded``."""
        if self._deadline is None:
            return
        self._steps += 1
        if self._steps % _CHECK_EVERY == 0 and time.monotonic() > self._deadline:
            raise BudgetExceeded

    def demand(self, size: int, limit: int) -> None:
        """Raise ``BudgetExceeded`` for an operation that is known beforehand to be long."""
        if self._deadline is not None and size > limit:
            raise BudgetExceeded


@dataclass(frozen=True, slots=True)
class Finished:
    """The outcome of a request that was given to a worker."""

    body: Body
    message: bytes
    """The encoded answer; empty when the worker was killed."""
    is_success: bool
    is_wanted: bool
    """Whether the engine that asked is still there."""


@dataclass(slots=True)
class Queued:
    """A request that waits for a worker."""

    body: Body
    fds: list[int]
    """The descriptors of the request, until a worker has them or nobody wants it any more."""


@dataclass(slots=True)
class _Worker:
    body: Body
    sock: socket.socket
    generation: int


class Workers:
    """The workers of one agent: ``MAX_WORKERS`` at a time, the others wait their turn."""

    def __init__(
        self, perform: Callable[[Body], tuple[Body, Sequence[int]]], keep: Callable[[Body], int]
    ) -> None:
        """``perform`` makes the whole answer to a request; it runs in the worker, where of all
        descriptors only the one that ``keep`` names is still open (-1: none)."""
        self._perform = perform
        self._keep = keep
        self._generation = 0
        self._running: dict[int, _Worker] = {}
        self._queued: deque[Queued] = deque()

    def __contains__(self, fd: int) -> bool:
        return fd in self._running

    def submit(self, body: Body, fds: list[int]) -> None:
        """Put a request in the queue, which owns ``fds`` then.

        Raises ``ResourceExhaustedError`` when it is full.
        """
        if len(self._queued) >= MAX_QUEUED:
            raise ResourceExhaustedError("too many long operations wait in this sandbox")
        self._queued.append(Queued(body, fds))

    def start_waiting(self) -> tuple[list[int], Queued | None]:
        """Start what waits: descriptors to poll, and a request that no process could be had for.

        The caller closes the descriptors of that.
        """
        started: list[int] = []
        while self._queued and len(self._running) < MAX_WORKERS:
            waiting = self._queued.popleft()
            body = waiting.body
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                pid = os.fork()
            except OSError:
                ours.close()
                theirs.close()
                return started, waiting
            if pid == 0:
                self._work(body, theirs)
            theirs.close()
            wire.close_all(waiting.fds)
            self._running[ours.fileno()] = _Worker(body, ours, self._generation)
            started.append(ours.fileno())
        return started, None

    def finish(self, fd: int) -> tuple[Finished, list[int]]:
        """Take the outcome of a worker that has ended, and the descriptors that it sent."""
        worker = self._running.pop(fd)
        with worker.sock as sock:
            try:
                datagram, ancillary, _, _ = sock.recvmsg(
                    wire.BUFFER_SIZE + 1, wire.ANCILLARY_SIZE, socket.MSG_CMSG_CLOEXEC
                )
            except OSError:
                datagram, ancillary = b"", []
        is_wanted = worker.generation == self._generation
        finished = Finished(worker.body, datagram[1:], datagram[:1] == _SUCCESS, is_wanted)
        return finished, wire.descriptors(ancillary)

    def forget(self) -> None:
        """Drop waiting requests: their engine is gone. Running ones end without an answer to it."""
        for waiting in self._queued:
            wire.close_all(waiting.fds)
        self._queued.clear()
        self._generation += 1

    def _work(self, body: Body, sock: socket.socket) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Nothing of the agent's may stay open here, such as the ends of pipes.
            _close_all_but(sock.fileno(), self._keep(body))
            answer, fds = self._perform(body)
            try:
                datagram, all_fds, _ = wire.encode(answer, fds)
            except wire.WireError:
                error = ResourceExhaustedError("the answer is too large; ask for less")
                answer = {"id": body.get("id"), "error": describe(error)}
                datagram, all_fds, _ = wire.encode(answer)
            mark = _SUCCESS if "ok" in answer else _FAILURE
            wire.transmit(sock, [mark, datagram], all_fds)
        finally:
            os._exit(0)


def lost(number: object) -> Body:
    """The answer to a request whose worker was killed."""
    error = InternalError("the operation was ended from inside the sandbox")
    return {"id": number, "error": describe(error)}


def short(number: object) -> Body:
    """The answer to a request for which no process could be made."""
    error = ResourceExhaustedError("the sandbox has no process left for this operation")
    return {"id": number, "error": describe(error)}


def describe(error: Any) -> Body:
    """A domain error as it travels."""
    described: Body = {"code": error.code, "message": error.message}
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno:
        described["errno"] = cause.errno
    return described


def _close_all_but(*kept: int) -> None:
    first = 3
    for fd in sorted(fd for fd in kept if fd >= 0):
        os.closerange(first, fd)
        first = fd + 1
    system.close_from(first)
