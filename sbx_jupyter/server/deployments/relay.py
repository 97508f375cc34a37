"""A loopback address that leads to the local engine as long as this server lives.

Kernels get this address and not the engine's own, which ends when the engine does. A thread copies
bytes, so that kernels do not wait for the server's event loop, nor the browser for kernels.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any, Final, cast

from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from logging import Logger

Address = tuple[str, int]

_BACKLOG: Final = 256
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_STOP_SECONDS: Final = 5.0
_REFUSAL_SECONDS: Final = 2.0
_HIGH_WATER: Final = 1024 * 1024
"""Bytes that wait for a slow side before the fast side is no longer read."""


class Relay:
    """Passes connections to 127.0.0.1 on to the address that ``find`` returns.

    ``find`` runs in a thread when a connection arrives, and may start the engine; its argument is
    true when the address that it returned before refuses connections. If it raises, the client gets
    503 with the error's message.
    """

    def __init__(self, find: Callable[[bool], Address], *, log: Logger) -> None:
        """Raises ``OSError`` when no port can be bound."""
        self._find = find
        self._log = log
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="sbx-relay", daemon=True)

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{cast('Address', self._socket.getsockname())[1]}"

    def start(self) -> None:
        """Accept connections, in a thread."""
        self._loop = asyncio.new_event_loop()  # here, so that ``stop`` finds it at any time
        self._thread.start()

    def stop(self) -> None:
        """Close every connection and the address; blocks for at most ``_STOP_SECONDS``."""
        if self._thread.is_alive() and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_STOP_SECONDS)
        self._socket.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._own_loop) as runner:
            runner.run(self._serve())

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    async def _serve(self) -> None:
        links: set[_Link] = set()
        server = await asyncio.get_running_loop().create_server(
            lambda: _Link(self._connect, links), sock=self._socket
        )
        try:
            await self._stopping.wait()
        finally:
            server.close()
            for link in list(links):
                link.abort()

    async def _connect(self, link: _Link) -> None:
        loop = asyncio.get_running_loop()
        try:
            try:
                await loop.create_connection(lambda: _Side(link), *await self._address(fresh=False))
            except ConnectionRefusedError:
                await loop.create_connection(lambda: _Side(link), *await self._address(fresh=True))
        except (SbxError, OSError) as error:
            message = error.message if isinstance(error, SbxError) else str(error)
            self._log.warning("a kernel cannot reach the engine: %s", message)
            link.refuse(message)

    async def _address(self, *, fresh: bool) -> Address:
        return await asyncio.to_thread(self._find, fresh)


class _Side(asyncio.Protocol):
    """One side of a relayed connection: writes what it reads to ``peer``."""

    def __init__(self, peer: _Side | None = None) -> None:
        self.peer: _Side | None = peer
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)
        if isinstance(self.peer, _Link):
            self.peer.join(self)

    def data_received(self, data: bytes) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        peer.peer = None
        if peer.transport is not None:
            # A reset is passed on as one: an orderly end would look like a whole answer.
            if exc is not None:
                peer.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
                )
            peer.transport.close()


class _Link(_Side):
    """The side of the client; it is not read until the side of the engine is connected."""

    def __init__(
        self, connect: Callable[[_Link], Coroutine[Any, Any, None]], links: set[_Link]
    ) -> None:
        super().__init__()
        self._connect = connect
        self._links = links
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        self._links.add(self)
        self._connecting = asyncio.get_running_loop().create_task(self._connect(self))

    def eof_received(self) -> bool:
        """Pass the end of the requests on; the answers to them still come."""
        if self.peer is None or self.peer.transport is None:
            return False
        self.peer.transport.write_eof()
        return True

    def join(self, engine: _Side) -> None:
        """Begin to copy both ways; closes the engine's side if the client has gone."""
        if self.transport is None or self.transport.is_closing():
            assert engine.transport is not None
            engine.transport.abort()
            return
        self.peer = engine
        self.transport.resume_reading()

    def refuse(self, message: str) -> None:
        """Answer 503 whatever is asked, and close."""
        if self.transport is None or self.transport.is_closing():
            return
        body = json.dumps({"code": 503, "message": message}).encode()
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        # Read and drop what the client still sends: a reset would overtake the answer.
        self.transport.resume_reading()
        self.transport.write_eof()
        asyncio.get_running_loop().call_later(_REFUSAL_SECONDS, self.abort)

    def abort(self) -> None:
        """Close both sides at once, whatever one of them has still to write."""
        for side in (self, self.peer):
            if side is not None and side.transport is not None:
                side.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._links.discard(self)
        super().connection_lost(exc)
