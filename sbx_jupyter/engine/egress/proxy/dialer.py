"""Opens connections that a policy allows: resolves a name, checks and dials each address."""

from __future__ import annotations

import asyncio
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sbx_jupyter.engine.egress.policy import EgressPolicy
from sbx_jupyter.engine.egress.proxy.resolver import PER_SANDBOX, Resolver
from sbx_jupyter.engine.egress.proxy.upstream import UpstreamProxy, connect_through
from sbx_jupyter.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    SbxError,
    UnavailableError,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from sbx_jupyter.engine.egress.policy import Address

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

CONNECT_TIMEOUT = 15.0


@dataclass(slots=True)
class Dialer:
    """Opens connections to the outside for one sandbox.

    ``policy`` and ``upstream`` may be replaced at any time, also during a dial: each address is
    checked again before it is dialled, and the proxy checks the connection that was made.
    """

    policy: EgressPolicy = field(default_factory=EgressPolicy)
    upstream: UpstreamProxy | None = None
    resolver: Resolver = field(default_factory=Resolver)
    lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PER_SANDBOX))

    async def dial(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[Stream, Address]:
        """Connect to ``host``, a name or an address.

        Raises ``PermissionDeniedError`` when the policy refuses every address of it,
        ``UnavailableError`` when none answers, ``DeadlineExceededError``.
        """
        self.policy.check_name(host)
        name, addresses = await self.resolve(host, port, lambda: self.policy.check_name(host))
        allowed = self._allowed(name, addresses)
        problem: Exception | None = None
        for address in allowed:
            try:
                self.policy.check(name, address)
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return await self._connect(address, port, name, tls), address
            except TimeoutError:
                problem = DeadlineExceededError(f"{host}:{port} did not answer in time")
            except SbxError as error:
                problem = error
            except OSError as error:
                problem = UnavailableError(f"cannot connect to {host}:{port}: {error.strerror}")
        assert problem is not None
        raise problem

    async def resolve(
        self, host: str, port: int, check: Callable[[], None] = lambda: None
    ) -> tuple[str | None, list[Address]]:
        """The name (``None`` for a literal address) and its addresses, at least one.

        ``check`` is called when a lookup begins, which may have waited for others.
        """
        literal = host.strip("[]")
        try:
            return None, [ipaddress.ip_address(literal)]
        except ValueError:
            pass
        return host, await self.resolver.look_up(host, port, self.lookups, check)

    def _allowed(self, name: str | None, addresses: list[Address]) -> list[Address]:
        allowed: list[Address] = []
        refusal: SbxError = InvalidArgumentError("no address")
        for address in addresses:
            try:
                self.policy.check(name, address)
            except SbxError as error:
                refusal = error
            else:
                allowed.append(address)
        if not allowed:
            raise refusal
        return allowed

    async def _connect(
        self, address: Address, port: int, name: str | None, tls: ssl.SSLContext | None
    ) -> Stream:
        server_name = (name or str(address)) if tls else None
        if self.upstream is None:
            return await asyncio.open_connection(
                str(address), port, ssl=tls, server_hostname=server_name
            )
        reader, writer = await self._connect_upstream(self.upstream, address, port)
        if tls:
            try:
                await writer.start_tls(tls, server_hostname=server_name)
            except BaseException:
                writer.close()
                raise
        return reader, writer

    async def _connect_upstream(
        self, upstream: UpstreamProxy, address: Address, port: int
    ) -> Stream:
        _, addresses = await self.resolve(upstream.host, upstream.port)
        # The upstream proxy must have an allowed address too, else a user could name one in the
        # machine's network. The entries of the sandbox do not apply to it.
        base = EgressPolicy(
            exceptions=self.policy.exceptions, own_addresses=self.policy.own_addresses
        )
        base.check(None, addresses[0])
        return await connect_through(upstream, str(addresses[0]), str(address), port)
