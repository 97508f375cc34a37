"""The agent's sending side: an engine that does not read must never make the agent wait."""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import ResourceExhaustedError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

MAX_WAITING: Final = 1024
MAX_WAITING_DESCRIPTORS: Final = 128


@dataclass(slots=True)
class _Message:
    number: object
    datagram: bytes
    fds: list[int]
    refused: Callable[[], None]
    is_refused: bool = False


def _nothing() -> None:
    """There is nothing to undo."""


class Outbox:
    """One channel to an engine, with a bounded queue of what it has not taken yet.

    An answer that the kernel has no room for is replaced by ``resource_exhausted``; ``refused``
    then undoes what the request did.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._waiting: deque[_Message] = deque()
        self._descriptors = 0

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(
        self, body: dict[str, Any], fds: Sequence[int] = (), refused: Callable[[], None] = _nothing
    ) -> None:
        """Send a message now or later; the caller keeps its descriptors.

        Raises ``WireError`` for a message that is too large, ``OSError`` when the engine is gone
        or has let too much pile up: the channel is to be closed then.
        """
        datagram, all_fds, memfd = wire.encode(body, fds)
        try:
            self.forward(body.get("id"), datagram, all_fds, refused)
        finally:
            if memfd is not None:
                os.close(memfd)

    def forward(
        self,
        number: object,
        datagram: bytes,
        fds: list[int],
        refused: Callable[[], None] = _nothing,
    ) -> None:
        """Send the encoded answer to request ``number`` as it is; the rest as ``send``."""
        message = _Message(number, datagram, fds, refused)
        if not self._waiting and self._try(message):
            return
        too_many = self._descriptors + len(fds) > MAX_WAITING_DESCRIPTORS
        if too_many or len(self._waiting) >= MAX_WAITING:
            raise ConnectionAbortedError("the engine does not read")
        message.fds = [os.dup(fd) for fd in fds]
        self._waiting.append(message)
        self._descriptors += len(fds)

    def flush(self) -> None:
        """Send the waiting messages until the socket is full. Raises ``OSError``."""
        while self._waiting:
            message = self._waiting[0]
            if not self._try(message):
                return
            self._waiting.popleft()
            self._descriptors -= len(message.fds)
            wire.close_all(message.fds)

    def close(self) -> None:
        while self._waiting:
            wire.close_all(self._waiting.popleft().fds)
        self.sock.close()

    def _try(self, message: _Message) -> bool:
        try:
            wire.transmit(self.sock, [message.datagram], [] if message.is_refused else message.fds)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in wire.SHORTAGE:
                raise
            if message.is_refused or not message.fds:
                return False  # a few bytes: there will be room for them
            message.is_refused = True
            message.datagram = _refusal(message.number)
            message.refused()
            return self._try(message)
        return True


def _refusal(number: object) -> bytes:
    code = ResourceExhaustedError.code
    why = "too many descriptors are in flight on this machine; try again"
    return json.dumps({"id": number, "error": {"code": code, "message": why}}).encode()
