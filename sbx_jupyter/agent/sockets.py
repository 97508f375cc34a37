"""Makes sockets in the sandbox's network namespace for the engine."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import AlreadyExistsError, InvalidArgumentError, UnavailableError
from sbx_jupyter.protocol.agent import MAX_DESCRIPTORS

if TYPE_CHECKING:
    from sbx_jupyter.agent.operation import Answer, Body


_FAMILIES: Final = {4: socket.AF_INET, 6: socket.AF_INET6}
_FLAGS: Final = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
_BACKLOG: Final = 128


def open_sockets(body: Body) -> Answer:
    """Unconnected TCP sockets: a socket keeps the namespace that it was made in."""
    count = body["count"]
    family = _FAMILIES.get(body.get("family", 4))
    if family is None or not 0 < count <= MAX_DESCRIPTORS:
        raise InvalidArgumentError("a family of 4 or 6 and a count of 1 to 64 are needed")
    made: list[int] = []
    try:
        for _ in range(count):
            # One after the other: those made before an error are closed.
            made.append(socket.socket(family, socket.SOCK_STREAM | _FLAGS).detach())  # noqa: PERF401
    except OSError as error:
        for fd in made:
            os.close(fd)
        raise UnavailableError(f"cannot make a socket: {error.strerror}") from error
    return {}, made


def listen(body: Body) -> Answer:
    """A listening TCP socket. Raises ``AlreadyExistsError`` when the port is taken."""
    host, port = body["host"], body["port"]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host)  # a name would be looked up, and that could wait
    except OSError:
        raise InvalidArgumentError(f"not an address: '{host}'") from None
    if not 0 <= port <= 0xFFFF:
        raise InvalidArgumentError(f"not a port: {port}")
    try:
        listener = socket.socket(family, socket.SOCK_STREAM | _FLAGS)
    except OSError as error:
        raise UnavailableError(f"cannot make a socket: {error.strerror}") from error
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except OSError as error:
            text = f"cannot listen on {host}:{port}: {error.strerror}"
            raise AlreadyExistsError(text) from error
        return {"port": listener.getsockname()[1]}, [listener.detach()]
