"""The proxy on a sandbox's loopback interface: HTTP CONNECT, HTTP and SOCKS5 on one port.

The listening socket was made in the sandbox's network namespace, or its keeper hands connections
over. The engine accepts them and applies the rules outside, where no process of the sandbox can
interfere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress.proxy import http, socks
from sbx_jupyter.engine.egress.proxy.dialer import Dialer
from sbx_jupyter.engine.egress.proxy.relay import GREETING_TIMEOUT
from sbx_jupyter.engine.egress.proxy.resolver import Resolver
from sbx_jupyter.engine.egress.proxy.tunnel import Tunnel
from sbx_jupyter.engine.token_bucket import TokenBucket
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from sbx_jupyter.engine.egress.policy import EgressPolicy
    from sbx_jupyter.engine.egress.proxy.dialer import Stream
    from sbx_jupyter.engine.egress.proxy.intercept import Interceptor
    from sbx_jupyter.engine.egress.proxy.upstream import UpstreamProxy
    from sbx_jupyter.engine.live.listeners import Listener

MAX_CONNECTIONS: Final = 256
"""Connections of one sandbox at once."""

_ACCEPTS_PER_SECOND: Final = 200.0
_ACCEPT_BURST: Final = 500
_RETRY_DELAY: Final = 0.1
_LIMIT: Final = 64 * 1024

logger = logging.getLogger(__name__)


class EgressProxy:
    """The egress proxy of one sandbox.

    Calls ``on_refused(target, reason)`` for each refused connection, and ``on_opened(target)`` with
    the name or address for each connection that was made.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        upstream: UpstreamProxy | None = None,
        interceptor: Interceptor | None = None,
        resolver: Resolver | None = None,
        on_refused: Callable[[str, str], None] = lambda target, reason: None,
        on_opened: Callable[[str], None] = lambda target: None,
    ) -> None:
        self.dialer = Dialer(policy, upstream, resolver or Resolver())
        self.interceptor = interceptor
        self._on_refused = on_refused
        self._on_opened = on_opened
        self._accepting: asyncio.Task[None] | None = None
        self._free_connections = asyncio.Semaphore(MAX_CONNECTIONS)
        self._accept_rate = TokenBucket(_ACCEPTS_PER_SECOND, _ACCEPT_BURST)
        self._tunnels: dict[asyncio.Task[None], Tunnel | None] = {}
        self._dialing: set[asyncio.Task[None]] = set()

    async def serve(self, listener: Listener) -> None:
        """Start to accept connections, and take ownership of the listener."""
        self._accepting = asyncio.create_task(self._accept_all(listener), name="sbx-egress")

    def update(
        self,
        policy: EgressPolicy,
        *,
        upstream: UpstreamProxy | None = None,
        interceptor: Interceptor | None = None,
    ) -> None:
        """Apply new rules, and close the tunnels that they refuse.

        A new ``upstream`` closes all tunnels and dials, which lead along the earlier way.
        """
        is_rerouted = upstream != self.dialer.upstream
        self.dialer.policy, self.dialer.upstream = policy, upstream
        self.interceptor = interceptor
        if is_rerouted:
            for task in self._dialing:
                task.cancel()
        for task, tunnel in self._tunnels.items():
            if tunnel is not None and (is_rerouted or not self._allows(tunnel)):
                task.cancel()

    async def aclose(self) -> None:
        """Stop accepting and close every tunnel."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        await self.close_tunnels()

    async def close_tunnels(self) -> None:
        """Close every tunnel; the sandbox can open new ones."""
        tasks = list(self._tunnels)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def refused(self, target: str, reason: str) -> None:
        """Record that a connection was refused."""
        self._on_refused(target, reason)

    async def open_tunnel(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        keeps_rule: bool = False,
    ) -> tuple[Stream, Tunnel]:
        """Connect the current task's connection to ``host``; see ``Proxy``."""
        task = asyncio.current_task()
        assert task is not None
        self._dialing.add(task)
        try:
            outside, address = await self.dialer.dial(host, port, tls=tls)
        finally:
            self._dialing.discard(task)
        tunnel = Tunnel(host, address, keeps_rule)
        try:
            # The rules may have been replaced while the connection was made.
            self.check(tunnel)
        except SbxError:
            outside[1].close()
            raise
        self._tunnels[task] = tunnel
        self._on_opened(tunnel.name or str(address))
        return outside, tunnel

    def check(self, tunnel: Tunnel) -> None:
        """Raise what ``Tunnel.check`` raises unless the current rules allow the tunnel."""
        rule = self.interceptor.rule_for(tunnel.host) if self.interceptor is not None else None
        tunnel.check(self.dialer.policy, rule)

    def _allows(self, tunnel: Tunnel) -> bool:
        try:
            self.check(tunnel)
        except SbxError:
            return False
        return True

    async def _accept_all(self, listener: Listener) -> None:
        """Accept up to the limits; further connections wait in the backlog of the listener."""
        loop = asyncio.get_running_loop()
        with contextlib.closing(listener):
            while True:
                await self._free_connections.acquire()
                try:
                    await self._accept_rate.take()
                    sock = await listener.accept()
                    reader = asyncio.StreamReader(limit=_LIMIT)
                    protocol = asyncio.StreamReaderProtocol(reader, self._accept)
                    await loop.connect_accepted_socket(lambda made=protocol: made, sock)
                except OSError as error:
                    self._free_connections.release()
                    logger.warning("a connection cannot be accepted: %s", error)
                    await asyncio.sleep(_RETRY_DELAY)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tunnels[task] = None
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            # The sandbox or the server disconnected, or new rules closed the tunnel.
            pass
        finally:
            del self._tunnels[task]
            self._free_connections.release()
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(GREETING_TIMEOUT):
            first = await reader.readexactly(1)
        if first == socks.VERSION:
            await socks.serve(self, (reader, writer))
        else:
            await http.serve(self, (reader, writer), first)
