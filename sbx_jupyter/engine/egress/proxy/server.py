"""The proxy that a sandbox finds on its loopback: HTTP CONNECT, plain HTTP and SOCKS5 on one port.

The listening socket was made inside the sandbox's network namespace; it is accepted here, outside,
so that nothing in the sandbox takes part in the decision.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress.proxy import http, socks
from sbx_jupyter.engine.egress.proxy.dialer import Dialer
from sbx_jupyter.engine.egress.proxy.rate_limit import Pace
from sbx_jupyter.engine.egress.proxy.relay import GREETING_TIMEOUT
from sbx_jupyter.engine.egress.proxy.resolver import Resolver
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from sbx_jupyter.engine.egress.policy import Address, EgressPolicy
    from sbx_jupyter.engine.egress.proxy.intercept import Interceptor
    from sbx_jupyter.engine.egress.proxy.upstream import UpstreamProxy

PROXY_PORT: Final = 49982
"""Where the proxy listens inside a sandbox, on 127.0.0.1."""

MAX_CONNECTIONS: Final = 256
"""Of one sandbox at once."""

_ACCEPTS_PER_SECOND: Final = 200.0
_ACCEPT_BURST: Final = 500
_RETRY_DELAY: Final = 0.1
_LIMIT: Final = 64 * 1024

logger = logging.getLogger(__name__)


class EgressProxy:
    """One sandbox's way out.

    ``on_refused(target, reason)`` is told of each refusal, for the sandbox's logs, ``on_opened`` of
    each connection that was made.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        upstream: UpstreamProxy | None = None,
        interceptor: Interceptor | None = None,
        resolver: Resolver | None = None,
        on_refused: Callable[[str, str], None] = lambda target, reason: None,
        on_opened: Callable[[], None] = lambda: None,
    ) -> None:
        self.dialer = Dialer(policy, upstream, resolver or Resolver())
        self.interceptor = interceptor
        self._on_refused = on_refused
        self._on_opened = on_opened
        self._accepting: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(MAX_CONNECTIONS)
        self._pace = Pace(_ACCEPTS_PER_SECOND, _ACCEPT_BURST)
        self._tunnels: dict[asyncio.Task[None], tuple[str | None, Address] | None] = {}

    async def serve(self, listener: socket.socket) -> None:
        """Start to accept on a listening socket, which the proxy owns from here on."""
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept_all(listener), name="sbx-egress")

    def update(
        self,
        policy: EgressPolicy,
        *,
        upstream: UpstreamProxy | None = None,
        interceptor: Interceptor | None = None,
    ) -> None:
        """Put new rules in force at once; tunnels that they refuse are closed."""
        self.dialer.policy, self.dialer.upstream = policy, upstream
        self.interceptor = interceptor
        for task, target in self._tunnels.items():
            if target is None:
                continue
            try:
                policy.check(*target)
            except SbxError:
                task.cancel()

    async def aclose(self) -> None:
        """Stop accepting and close every tunnel."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        await self.hang_up()

    async def hang_up(self) -> None:
        """Close every tunnel; new ones can be opened."""
        tasks = list(self._tunnels)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def refused(self, target: str, reason: str) -> None:
        """Record a refusal."""
        self._on_refused(target, reason)

    def tunnel_opened(self, name: str | None, address: Address) -> None:
        """Remember what the running connection is for, so that new rules can close it."""
        task = asyncio.current_task()
        assert task is not None
        self._tunnels[task] = (name, address)
        self._on_opened()

    async def _accept_all(self, listener: socket.socket) -> None:
        """Accept while there is room; others wait in the sandbox, where they cost us nothing."""
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                await self._room.acquire()
                try:
                    await self._pace.turn()
                    sock, _ = await loop.sock_accept(listener)
                    reader = asyncio.StreamReader(limit=_LIMIT)
                    protocol = asyncio.StreamReaderProtocol(reader, self._accept)
                    await loop.connect_accepted_socket(lambda made=protocol: made, sock)
                except OSError as error:
                    self._room.release()
                    logger.warning("a connection cannot be accepted: %s", error)
                    await asyncio.sleep(_RETRY_DELAY)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tunnels[task] = None
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            # The sandbox or the far side went away, or new rules closed the tunnel.
            pass
        finally:
            del self._tunnels[task]
            self._room.release()
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(GREETING_TIMEOUT):
            first = await reader.readexactly(1)
        if first == socks.VERSION:
            await socks.serve(self, (reader, writer))
        else:
            await http.serve(self, (reader, writer), first, self.interceptor)
