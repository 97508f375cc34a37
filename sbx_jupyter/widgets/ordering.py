"""Restores the sender's order of messages that arrive on several threads."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MAX_SENDERS: Final = 256
MAX_EARLY: Final = 1000


class Resequencer(Generic[T]):
    """Delivers each sender's messages in the order of their numbers, which start at 0.

    A message waits for those before it. When more than ``MAX_EARLY`` wait, the missing ones count
    as lost and are skipped. Only the ``MAX_SENDERS`` latest senders are remembered.
    """

    def __init__(self, deliver: Callable[[T], None]) -> None:
        self._deliver = deliver
        self._lock = Lock()
        self._senders: OrderedDict[str, _Sender[T]] = OrderedDict()

    def receive(self, sender: str, number: int, message: T) -> None:
        """Take a message on any thread; deliver it and those that waited for it, if it is next."""
        with self._lock:
            known = self._senders.setdefault(sender, _Sender())
            self._senders.move_to_end(sender)
            if len(self._senders) > MAX_SENDERS:
                self._senders.popitem(last=False)
            for ready in known.take(number, message):
                self._deliver(ready)


class _Sender(Generic[T]):
    def __init__(self) -> None:
        self._next = 0
        self._early: dict[int, T] = {}

    def take(self, number: int, message: T) -> list[T]:
        """Return the messages to deliver now; drops one that was delivered before."""
        if number < self._next:
            return []
        self._early[number] = message
        if len(self._early) > MAX_EARLY:
            self._next = min(self._early)
        ready: list[T] = []
        while self._next in self._early:
            ready.append(self._early.pop(self._next))
            self._next += 1
        return ready
