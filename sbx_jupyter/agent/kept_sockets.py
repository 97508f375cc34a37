"""Connections between the engine and ports of a sandbox whose keeper is its loopback interface."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent import keeper_requests
from sbx_jupyter.errors import InvalidArgumentError, UnavailableError

if TYPE_CHECKING:
    from sbx_jupyter.agent.operation import Answer, Body

_FLAGS: Final = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC


class KeptSockets:
    """Hands one end of a pair to the keeper, and the other one to the engine.

    Nothing waits for the keeper here: the engine reads its answer from a pipe.
    """

    def __init__(self, way: int) -> None:
        """``way`` leads to the keeper."""
        self._way = socket.socket(fileno=os.dup(way))

    def connect(self, body: Body) -> Answer:
        """A connection to a port inside, and the keeper's answer."""
        return self._ask(keeper_requests.CONNECT, body["port"], socket.SOCK_STREAM)

    def listen(self, body: Body) -> Answer:
        """A socket that receives the connections to a port, and the keeper's answer."""
        return self._ask(keeper_requests.LISTEN, body["port"], socket.SOCK_SEQPACKET)

    def _ask(self, kind: bytes, port: int, way: int) -> Answer:
        if not 0 < port <= 0xFFFF:
            raise InvalidArgumentError(f"not a port: {port}")
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, way | _FLAGS)
        except OSError as error:
            raise UnavailableError(f"cannot make a socket: {error.strerror}") from error
        answer, given = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            with theirs:
                message, fds = [keeper_requests.request(kind, port)], [theirs.fileno(), given]
                socket.send_fds(self._way, message, fds, socket.MSG_DONTWAIT)
        except OSError as error:
            os.close(answer)
            ours.close()
            raise UnavailableError(f"the keeper is busy: {error.strerror}") from error
        finally:
            os.close(given)
        return {}, [ours.detach(), answer]
