"""Connects through the user's SOCKS5 proxy (``egressProxy``, interface 8.1), or not at all."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sbx_jupyter.errors import UnauthenticatedError, UnavailableError

if TYPE_CHECKING:
    from sbx_jupyter.protocol.platform import EgressProxy

_NO_AUTHENTICATION = 0
_PASSWORD = 2


@dataclass(frozen=True, slots=True)
class UpstreamProxy:
    """The address of the user's proxy and how to log in; ``repr`` does not show the password."""

    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, compare=False)
    trust: str | None = None
    """The certificates that ``tls`` trusts, empty for the system's; ``None`` without TLS.

    Compared in place of ``tls``, of which each reading of the configuration makes a new one.
    """
    server_name: str | None = None

    @classmethod
    def from_config(cls, config: EgressProxy) -> UpstreamProxy:
        host, _, port = config.address.rpartition(":")
        context = trust = None
        if config.tls is not None and config.tls.enabled:
            trust = config.tls.ca_cert or ""
            context = ssl.create_default_context(cadata=config.tls.ca_cert)
        return cls(
            host=host.strip("[]"),
            port=int(port),
            username=config.username,
            password=config.password,
            tls=context,
            trust=trust,
            server_name=(config.tls.server_name if config.tls else None) or host.strip("[]"),
        )


async def connect_through(
    proxy: UpstreamProxy, proxy_address: str, address: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a tunnel to an address through the proxy.

    Raises ``UnavailableError`` when the proxy cannot connect and ``UnauthenticatedError`` when it
    does not accept the login.
    """
    reader, writer = await asyncio.open_connection(
        proxy_address,
        proxy.port,
        ssl=proxy.tls,
        server_hostname=proxy.server_name if proxy.tls else None,
    )
    try:
        await _log_in(proxy, reader, writer)
        await _ask(reader, writer, address, port)
    except (asyncio.IncompleteReadError, OSError) as error:
        writer.close()
        raise UnavailableError("the egress proxy closed the connection") from error
    except BaseException:
        writer.close()
        raise
    return reader, writer


async def _log_in(
    proxy: UpstreamProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    method = _NO_AUTHENTICATION if proxy.username is None else _PASSWORD
    writer.write(bytes([5, 1, method]))
    version, chosen = await reader.readexactly(2)
    if version != 5 or chosen != method:
        raise UnauthenticatedError("the egress proxy does not accept our way to log in")
    if method == _PASSWORD:
        user, password = (proxy.username or "").encode(), (proxy.password or "").encode()
        writer.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        _, status = await reader.readexactly(2)
        if status != 0:
            raise UnauthenticatedError("the egress proxy refused the user name or password")


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, port: int
) -> None:
    packed = ipaddress.ip_address(address).packed
    kind = 1 if len(packed) == 4 else 4
    writer.write(bytes([5, 1, 0, kind]) + packed + port.to_bytes(2))
    _, status, _, bound = await reader.readexactly(4)
    size = {1: 4, 4: 16}.get(bound)
    if size is None:
        size = (await reader.readexactly(1))[0]
    await reader.readexactly(size + 2)
    if status != 0:
        raise UnavailableError(f"the egress proxy could not connect (SOCKS reply {status})")
