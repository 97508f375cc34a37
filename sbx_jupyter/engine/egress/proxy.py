"""The proxy that a sandbox finds on its loopback: HTTP CONNECT, plain HTTP and SOCKS5 on one port.

The listening socket was made inside the sandbox's network namespace; it is accepted here, outside,
so that nothing in the sandbox takes part in the decision.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.egress import http, socks
from sbx_jupyter.engine.egress.dialer import Dialer
from sbx_jupyter.engine.egress.relay import GREETING_TIMEOUT
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from sbx_jupyter.engine.egress.intercept import Interceptor
    from sbx_jupyter.engine.egress.policy import Address, EgressPolicy
    from sbx_jupyter.engine.egress.upstream import UpstreamProxy

PROXY_PORT: Final = 49982
"""Where the proxy listens inside a sandbox, on 127.0.0.1."""

MAX_CONNECTIONS: Final = 256

logger = logging.getLogger(__name__)


class EgressProxy:
    """One sandbox's way out.

    ``on_refused(target, reason)`` is told of each refusal, for the sandbox's logs.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        upstream: UpstreamProxy | None = None,
        interceptor: Interceptor | None = None,
        on_refused: Callable[[str, str], None] = lambda target, reason: None,
    ) -> None:
        self.dialer = Dialer(policy, upstream)
        self.interceptor = interceptor
        self._on_refused = on_refused
        self._server: asyncio.Server | None = None
        self._tunnels: dict[asyncio.Task[None], tuple[str | None, Address] | None] = {}

    async def serve(self, listener: socket.socket) -> None:
        """Start to accept on a listening socket, which the proxy owns from here on."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=64 * 1024)

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
        if self._server is not None:
            self._server.close()
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

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tunnels) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._tunnels[task] = None
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            # The sandbox or the far side went away, or new rules closed the tunnel.
            pass
        finally:
            del self._tunnels[task]
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(GREETING_TIMEOUT):
            first = await reader.readexactly(1)
        if first == socks.VERSION:
            await socks.serve(self, (reader, writer))
        else:
            await http.serve(self, (reader, writer), first)
