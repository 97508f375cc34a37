"""Connections to ports of sandboxes through the engine, kept open between requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sbx_jupyter.protocol.access import PORT_UPGRADE
from sbx_jupyter.server.ports.tunnel import (
    BrokenAnswerError,
    ClosedPortError,
    Tunnel,
    TunnelReader,
    TunnelRefusedError,
)
from sbx_jupyter.server.ports.upstream import CONNECT_SECONDS, is_closed_port
from sbx_jupyter.server.ports.wire import CHUNK, read_head

if TYPE_CHECKING:
    from sbx_jupyter.client.api.runtime import RuntimeClient
    from sbx_jupyter.server.ports.upstream import Upstream

IDLE_SECONDS: Final = 15.0
"""A connection that no request used for so long is closed."""

MAX_IDLE_PER_PORT: Final = 8
MAX_IDLE: Final = 128
MAX_REFUSAL: Final = 64 * 1024


_Key = tuple["RuntimeClient", int]


class Tunnels:
    """The connections of one server that no request uses, by sandbox and port."""

    def __init__(self) -> None:
        self._idle: dict[_Key, list[Tunnel]] = {}
        self._count = 0

    async def take(self, upstream: Upstream, *, may_be_used: bool) -> Tunnel:
        """A connection for one request, an idle one if it ``may_be_used``.

        Raises ``ClosedPortError`` and ``TunnelRefusedError``.
        """
        while may_be_used and (tunnel := self._pop(upstream)) is not None:
            if tunnel.wake():
                return tunnel
            tunnel.close()
        return await open_tunnel(upstream)

    def give_back(self, upstream: Upstream, tunnel: Tunnel) -> None:
        """Keep a connection for the next request; it is closed if there are enough."""
        key = (upstream.runtime, upstream.port)
        kept = self._idle.get(key, [])
        if len(kept) >= MAX_IDLE_PER_PORT or self._count >= MAX_IDLE:
            tunnel.close()
            return
        tunnel.rest()
        kept.append(tunnel)
        self._idle[key] = kept
        self._count += 1
        loop = asyncio.get_running_loop()
        tunnel.closing = loop.call_later(IDLE_SECONDS, self._drop, upstream, tunnel)

    def close(self) -> None:
        """Close all of them."""
        for kept in self._idle.values():
            for tunnel in kept:
                tunnel.wake()
                tunnel.close()
        self._idle.clear()
        self._count = 0

    def _pop(self, upstream: Upstream) -> Tunnel | None:
        key = (upstream.runtime, upstream.port)
        if not (kept := self._idle.get(key)):
            return None
        tunnel = kept.pop()
        self._forget(key, kept)
        return tunnel

    def _drop(self, upstream: Upstream, tunnel: Tunnel) -> None:
        key = (upstream.runtime, upstream.port)
        kept = self._idle.get(key, [])
        if tunnel in kept:
            kept.remove(tunnel)
            self._forget(key, kept)
        tunnel.close()

    def _forget(self, key: _Key, kept: list[Tunnel]) -> None:
        self._count -= 1
        if not kept:
            del self._idle[key]


async def open_tunnel(upstream: Upstream) -> Tunnel:
    """Let the engine join a new connection to a port; raises the errors of ``Tunnels.take``."""
    host, port, context = upstream.endpoint()
    netloc = urlsplit(upstream.url).netloc
    loop = asyncio.get_running_loop()
    reader = TunnelReader(limit=CHUNK, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=context)
    except (OSError, TimeoutError) as error:
        raise TunnelRefusedError(f"cannot connect to {netloc}: {error}") from error
    tunnel = Tunnel(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _join(tunnel, upstream, netloc)
    except TimeoutError as error:
        tunnel.close()
        raise TunnelRefusedError(f"no answer from {netloc} in time") from error
    except BaseException:
        tunnel.close()
        raise
    return tunnel


async def _join(tunnel: Tunnel, upstream: Upstream, host: str) -> None:
    headers = {
        "Host": host,
        **upstream.runtime.headers(port=upstream.port),
        "Connection": "Upgrade",
        "Upgrade": PORT_UPGRADE,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    tunnel.writer.write(f"GET / HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
    try:
        head = await read_head(tunnel, switches=True)
    except BrokenAnswerError as error:
        raise TunnelRefusedError(error.message) from error
    if head.status == 101 and head.values("upgrade") == [PORT_UPGRADE]:
        return
    refusal = await tunnel.reader.read(MAX_REFUSAL)
    if is_closed_port(head.status, refusal):
        raise ClosedPortError(f"nothing listens on port {upstream.port} of the sandbox")
    raise TunnelRefusedError(f"the engine answers {head.status}")
