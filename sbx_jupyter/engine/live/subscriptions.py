"""Who listens to the output of one process: every subscriber gets every chunk, the slowest sets
the pace (interface 3.5)."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.errors import ResourceExhaustedError, SbxError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from sbx_jupyter.protocol.runtime import EndEvent

QUEUE_LIMIT: Final = 8
"""Chunks that wait for one subscriber before the process has to wait for it."""


class DisconnectedError(UnavailableError):
    """The sandbox was paused with its memory, and its connections dropped (interface 9.5)."""


@dataclass(frozen=True, slots=True)
class Output:
    """One chunk of what a process wrote."""

    kind: str
    """``stdout``, ``stderr`` or ``pty``: the member of the data event."""
    chunk: bytes
    sequence: int
    """How many bytes of this kind came before the chunk."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The process ended; the last thing that a subscription yields."""

    end: EndEvent


class Replay(Protocol):
    """Output kept from before; it grows with live output until the reader has caught up."""

    def next(self) -> Output | None:
        """The next kept chunk, or ``None`` when there is no more."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether more live output would overwrite what was not replayed yet."""
        ...


class Subscription:
    """One reader of a process: an asynchronous iterator over its output and then its end.

    Output counts from the moment of ``Process.subscribe``. Leave the context, or call ``close``,
    to stop listening; the process goes on. Iteration raises ``DeadlineExceededError`` when the
    process was killed by its timeout, ``ResourceExhaustedError`` when this reader held up others
    for too long, and ``UnavailableError`` when the sandbox is gone.
    """

    def __init__(self, audience: Audience, replay: Replay | None) -> None:
        self._audience = audience
        self._replay = replay
        self._queue: deque[Output] = deque()
        self._outcome: Ended | SbxError | None = None
        self._is_done = False
        self._waiter: asyncio.Future[None] | None = None
        self.full_since: float | None = None

    @property
    def is_full(self) -> bool:
        """Whether this reader cannot take more output now."""
        if self._replay is not None:
            return self._replay.is_behind
        return len(self._queue) >= QUEUE_LIMIT

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will be added for this reader."""
        return self._is_done or self._outcome is not None

    def offer(self, output: Output) -> None:
        """Queue one chunk; while replaying, the chunk comes from the replay instead."""
        if self._replay is None and not self.has_ended:
            self._queue.append(output)
            self._wake()

    def finish(self, outcome: Ended | SbxError) -> None:
        """Say how it ends; what is queued is delivered first."""
        if self._outcome is None:
            self._outcome = outcome
            self._wake()

    def close(self) -> None:
        """Stop listening; may be called more than once."""
        self._is_done = True
        self._queue.clear()
        self._replay = None
        self._wake()
        self._audience.leave(self)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Output | Ended:
        while True:
            if self._is_done:
                raise StopAsyncIteration
            if (output := self._next_output()) is not None:
                self._audience.consumed(self)
                return output
            if self._outcome is not None:
                return self._conclude(self._outcome)
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _next_output(self) -> Output | None:
        if self._replay is not None:
            if (output := self._replay.next()) is not None:
                return output
            # Nothing can arrive between this and the next live chunk: both happen on the loop.
            self._replay = None
        return self._queue.popleft() if self._queue else None

    def _conclude(self, outcome: Ended | SbxError) -> Ended:
        self.close()
        if isinstance(outcome, SbxError):
            raise outcome
        return outcome

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Audience:
    """All subscribers of one process.

    The process is read no faster than its slowest subscriber takes. A subscriber that takes
    nothing for ``stall_limit`` seconds while another one waits for output is sent away.
    """

    def __init__(self, *, stall_limit: float, on_room: Callable[[], None]) -> None:
        self._members: list[Subscription] = []
        self._stall_limit = stall_limit
        self._on_room = on_room
        self._is_held = False
        self._stall_timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_full(self) -> bool:
        """Whether the process has to wait."""
        return any(member.is_full for member in self._members)

    def join(self, replay: Replay | None = None) -> Subscription:
        """Add a subscriber."""
        subscription = Subscription(self, replay)
        self._members.append(subscription)
        if self.is_full:
            self._hold()
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Forget a subscriber; it may be unknown already."""
        if subscription in self._members:
            self._members.remove(subscription)
            self._release_if_room()

    def publish(self, output: Output) -> bool:
        """Give one chunk to everybody; false when the process has to wait from now on."""
        for member in self._members:
            member.offer(output)
        if self.is_full:
            self._hold()
            return False
        return True

    def consumed(self, subscription: Subscription) -> None:
        """A subscriber took one chunk."""
        subscription.full_since = None
        if self._is_held:
            self._release_if_room()

    def finish(self, outcome: Ended | SbxError) -> None:
        """Tell everybody how it ends, and forget them."""
        members, self._members = self._members, []
        for member in members:
            member.finish(outcome)
        self._stop_timer()

    def hang_up(self, error: SbxError) -> None:
        """End all who listen now; the process goes on and others may come."""
        self.finish(error)
        self._release_if_room()

    def _hold(self) -> None:
        self._is_held = True
        now = asyncio.get_running_loop().time()
        for member in self._members:
            if member.full_since is None and member.is_full:
                member.full_since = now
        if self._stall_timer is None and len(self._members) > 1:
            self._start_timer()

    def _release_if_room(self) -> None:
        if self._is_held and not self.is_full:
            self._is_held = False
            self._stop_timer()
            self._on_room()

    def _start_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._stall_timer = loop.call_later(self._stall_limit / 4, self._send_stalled_away)

    def _stop_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _send_stalled_away(self) -> None:
        self._stall_timer = None
        latest = asyncio.get_running_loop().time() - self._stall_limit
        waiting = [member for member in self._members if not member.is_full]
        for member in list(self._members):
            stalled = member.full_since is not None and member.full_since <= latest
            if waiting and stalled and member.is_full:
                member.finish(ResourceExhaustedError("the output was not read for too long"))
                self._members.remove(member)
        self._release_if_room()
        if self._is_held and len(self._members) > 1:
            self._start_timer()
