"""A proxy on a loopback socket and servers behind it, the operator's exception; and a world."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from sbx_jupyter.client import ConnectionConfig
from sbx_jupyter.engine.egress.policy import EgressPolicy
from sbx_jupyter.engine.egress.proxy.authority import CertificateAuthority
from sbx_jupyter.engine.egress.proxy.server import EgressProxy
from sbx_jupyter.engine.live.listeners import TcpListener
from sbx_jupyter.protocol.platform import NetworkConfig
from tests.engine.egress.world import World, open_world
from tests.engine_process import EngineProcess

LOOPBACK = ipaddress.ip_network("127.0.0.0/8")

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def loopback_policy(**fields: object) -> EgressPolicy:
    return EgressPolicy.from_config(
        NetworkConfig(**fields),  # type: ignore[arg-type]
        exceptions=[LOOPBACK],
    )


class RunningProxy:
    def __init__(self, proxy: EgressProxy, port: int, refusals: list[tuple[str, str]]) -> None:
        self.proxy = proxy
        self.port = port
        self.refusals = refusals

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@pytest.fixture
async def running_proxy() -> AsyncIterator[RunningProxy]:
    refusals: list[tuple[str, str]] = []
    proxy = EgressProxy(
        loopback_policy(), on_refused=lambda target, reason: refusals.append((target, reason))
    )
    listener = socket.create_server(("127.0.0.1", 0))
    await proxy.serve(TcpListener(listener))
    yield RunningProxy(proxy, listener.getsockname()[1], refusals)
    await proxy.aclose()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[int]]]:
    """Start a server with a handler; gives its port."""
    servers: list[asyncio.Server] = []

    async def start(handler: Handler, tls: ssl.SSLContext | None = None) -> int:
        async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await handler(reader, writer)
            except OSError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(guarded, "127.0.0.1", 0, ssl=tls)
        servers.append(server)
        return server.sockets[0].getsockname()[1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Namespaces with a machine and servers, for one file of tests."""
    with open_world() as made:
        yield made


@pytest.fixture
def config(engine: EngineProcess) -> ConnectionConfig:
    """How to reach the ``engine`` of the file."""
    return ConnectionConfig.from_connection_file(engine.connection)
