"""The agent's sending side: an engine that does not read must never make the agent wait."""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from . import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_WAITING: Final = 1024
MAX_WAITING_DESCRIPTORS: Final = 128


class Outbox:
    """One channel to an engine, with a bounded queue of what it has not taken yet."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._waiting: deque[tuple[bytes, list[int]]] = deque()
        self._descriptors = 0

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, body: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send a message now or later; the caller keeps its descriptors.

        Raises ``WireError`` for a message that is too large, ``OSError`` when the engine is gone
        or has let too much pile up: the channel is to be closed then.
        """
        datagram, all_fds, memfd = wire.encode(body, fds)
        try:
            self.forward(datagram, all_fds)
        finally:
            if memfd is not None:
                os.close(memfd)

    def forward(self, datagram: bytes, fds: list[int]) -> None:
        """Send an encoded message as it is; the rest as ``send``."""
        if not self._waiting and self._try(datagram, fds):
            return
        too_many = self._descriptors + len(fds) > MAX_WAITING_DESCRIPTORS
        if too_many or len(self._waiting) >= MAX_WAITING:
            raise ConnectionAbortedError("the engine does not read")
        self._waiting.append((datagram, [os.dup(fd) for fd in fds]))
        self._descriptors += len(fds)

    def flush(self) -> None:
        """Send what waits, as far as there is room. Raises ``OSError``."""
        while self._waiting:
            datagram, fds = self._waiting[0]
            if not self._try(datagram, fds):
                return
            self._waiting.popleft()
            self._descriptors -= len(fds)
            wire.close_all(fds)

    def close(self) -> None:
        while self._waiting:
            wire.close_all(self._waiting.popleft()[1])
        self.sock.close()

    def _try(self, datagram: bytes, fds: list[int]) -> bool:
        try:
            self.sock.sendmsg([datagram], wire.rights(fds), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        return True
