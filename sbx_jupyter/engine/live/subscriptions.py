"""Subscriptions to the output of one process (interface 3.5).

Every subscriber gets every chunk, and the process is read as fast as the slowest one takes them.
"""

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
"""Chunks that may wait for one subscriber before the process is no longer read."""

_LOW: Final = QUEUE_LIMIT // 2
"""Chunks of an only subscriber from which on the process is read again: to stop and start the
reading for each chunk takes as long as to send it."""


class DisconnectedError(UnavailableError):
    """The sandbox was paused with its memory, which ends its connections (interface 9.5)."""


@dataclass(frozen=True, slots=True)
class Output:
    """One chunk of what a process wrote."""

    kind: str
    """``stdout``, ``stderr`` or ``pty``: the member of the data event."""
    chunk: bytes
    sequence: int
    """The number of bytes of this kind before the chunk."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The process ended; the last thing that a subscription yields."""

    end: EndEvent


class Replay(Protocol):
    """Earlier output that was kept; new output is added until the reader has caught up."""

    def next(self) -> Output | None:
        """The next kept chunk, or ``None`` when there is no more."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether more output would overwrite what was not replayed yet."""
        ...


class Subscription:
    """One reader of a process: an asynchronous iterator over its output and then its end.

    It begins with the output after ``Process.subscribe``. Leave the context, or call ``close``, to
    unsubscribe; the process continues. Iteration raises ``DeadlineExceededError`` when the
    process was killed by its timeout, ``ResourceExhaustedError`` when this reader held up others
    for too long, and ``UnavailableError`` when the sandbox is gone.
    """

    def __init__(self, subscribers: Subscribers, replay: Replay | None) -> None:
        self._subscribers = subscribers
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
    def is_low(self) -> bool:
        """Whether this reader needs more output soon."""
        if self._replay is not None:
            return not self._replay.is_behind
        return len(self._queue) <= _LOW

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
        """Set how the subscription ends; queued chunks are delivered first."""
        if self._outcome is None:
            self._outcome = outcome
            self._wake()

    def close(self) -> None:
        """Unsubscribe; may be called more than once."""
        self._is_done = True
        self._queue.clear()
        self._replay = None
        self._wake()
        self._subscribers.remove(self)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Output | Ended:
        while True:
            if self._is_done:
                raise StopAsyncIteration
            if (output := self._next_output()) is not None:
                self._subscribers.note_consumed(self)
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
            # No chunk can arrive between here and the queue: both run on the event loop.
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


class Subscribers:
    """All subscribers of one process.

    The process is read as fast as its slowest subscriber takes chunks. A subscriber that takes none
    for ``stall_limit`` seconds while another one waits for output is dropped. ``on_room`` is called
    when the process may be read again.
    """

    def __init__(self, *, stall_limit: float, on_room: Callable[[], None]) -> None:
        self._members: list[Subscription] = []
        self._stall_limit = stall_limit
        self._on_room = on_room
        self._is_paused = False
        self._stall_timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_full(self) -> bool:
        """Whether the process must not be read."""
        return any(member.is_full for member in self._members)

    def add(self, replay: Replay | None = None) -> Subscription:
        """Add a subscriber."""
        subscription = Subscription(self, replay)
        self._members.append(subscription)
        if self.is_full:
            self._pause()
        else:
            self._resume_if_room()
        return subscription

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscriber, if it is still there."""
        if subscription in self._members:
            self._members.remove(subscription)
            self._resume_if_room()

    def publish(self, output: Output) -> bool:
        """Give one chunk to every subscriber; false when the process must not be read on."""
        for member in self._members:
            member.offer(output)
        if self.is_full:
            self._pause()
            return False
        return True

    def note_consumed(self, subscription: Subscription) -> None:
        """Note that a subscriber took one chunk."""
        subscription.full_since = None
        if self._is_paused:
            self._resume_if_room()

    def finish(self, outcome: Ended | SbxError) -> None:
        """End every subscription with ``outcome``."""
        members, self._members = self._members, []
        for member in members:
            member.finish(outcome)
        self._stop_timer()

    def disconnect(self, error: SbxError) -> None:
        """End the present subscriptions with ``error``; new ones can be added."""
        self.finish(error)
        self._resume_if_room()

    def _pause(self) -> None:
        self._is_paused = True
        now = asyncio.get_running_loop().time()
        for member in self._members:
            if member.full_since is None and member.is_full:
                member.full_since = now
        if self._stall_timer is None and len(self._members) > 1:
            self._start_timer()

    def _resume_if_room(self) -> None:
        if self._is_paused and self._has_room():
            self._is_paused = False
            self._stop_timer()
            self._on_room()

    def _has_room(self) -> bool:
        # Beside others, one that has stopped reading must get full, to be dropped in the end.
        if len(self._members) == 1:
            return self._members[0].is_low
        return not self.is_full

    def _start_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._stall_timer = loop.call_later(self._stall_limit / 4, self._drop_stalled)

    def _stop_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _drop_stalled(self) -> None:
        self._stall_timer = None
        latest = asyncio.get_running_loop().time() - self._stall_limit
        waiting = [member for member in self._members if not member.is_full]
        for member in list(self._members):
            stalled = member.full_since is not None and member.full_since <= latest
            if waiting and stalled and member.is_full:
                member.finish(ResourceExhaustedError("the output was not read for too long"))
                self._members.remove(member)
        self._resume_if_room()
        if self._is_paused and len(self._members) > 1:
            self._start_timer()
