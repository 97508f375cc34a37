"""Accept connections from a sandbox to a port that the engine serves."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol

from sbx_jupyter.engine.live import descriptors


class Listener(Protocol):
    """Accepts connections to one port inside a sandbox."""

    async def accept(self) -> socket.socket:
        """The next connection, which does not block. Raises ``OSError``."""
        ...

    def close(self) -> None:
        """Accept no more."""
        ...


class TcpListener:
    """A listening socket of the sandbox's network namespace."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._sock.getsockname()[1]

    async def accept(self) -> socket.socket:
        """The next connection, which does not block. Raises ``OSError``."""
        sock, _ = await asyncio.get_running_loop().sock_accept(self._sock)
        return sock

    def close(self) -> None:
        """Accept no more."""
        self._sock.close()


class KeptListener:
    """Connections that the keeper of a sandbox sends, each as a descriptor."""

    def __init__(self, way: socket.socket) -> None:
        way.setblocking(False)
        self._way = way

    async def accept(self) -> socket.socket:
        """The next connection, which does not block. Raises ``OSError``."""
        while True:
            try:
                _, fds, _, _ = socket.recv_fds(self._way, 1, 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                await wait_readable(self._way.fileno())
                continue
            if not fds:
                raise ConnectionAbortedError("the keeper sends no connections any more")
            if not descriptors.is_unix_stream(fds[0]):
                descriptors.close_all(fds)
                continue
            sock = socket.socket(fileno=fds[0])
            sock.setblocking(False)
            return sock

    def close(self) -> None:
        """Accept no more."""
        self._way.close()


async def wait_readable(fd: int) -> None:
    """Return when a descriptor can be read."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, tell)
    try:
        await ready
    finally:
        loop.remove_reader(fd)
