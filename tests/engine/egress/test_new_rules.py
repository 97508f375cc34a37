"""New rules apply at once: to dials in flight, to tunnels that are open, to the next request."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import pytest

from sbx_jupyter.engine.egress.policy import Address
from sbx_jupyter.engine.egress.proxy.authority import CertificateAuthority
from sbx_jupyter.engine.egress.proxy.dialer import Dialer
from sbx_jupyter.engine.egress.proxy.intercept import Interceptor
from sbx_jupyter.engine.egress.proxy.resolver import Resolver
from sbx_jupyter.engine.egress.proxy.upstream import UpstreamProxy
from sbx_jupyter.errors import PermissionDeniedError
from sbx_jupyter.protocol.platform import EgressProxy, EgressTls
from tests.engine.egress.conftest import RunningProxy, loopback_policy
from tests.engine.egress.test_intercept import open_tls, read_answer, show_requests
from tests.engine.egress.test_proxy import connect, echo, socks
from tests.waiting import PATIENCE

DENIED = loopback_policy(deny_out=["127.0.0.2", "127.0.0.3"])
SOCKS_REQUEST = b"\x05\x01\x00\x01\x7f\x00\x00\x02\x00\x50"


@dataclass
class SlowUpstream:
    """A user's SOCKS5 proxy that answers when it is told to, with ``status``."""

    status: int = 0
    asked: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        writer.write(b"\x05\x00")
        request = await reader.readexactly(10)
        self.asked.put_nowait(str(ipaddress.IPv4Address(request[4:8])))
        rest = asyncio.create_task(reader.read())
        answer = asyncio.create_task(self.may_answer.wait())
        await asyncio.wait({rest, answer}, return_when=asyncio.FIRST_COMPLETED)
        answer.cancel()
        writer.write(bytes([5, self.status, 0, 1, 0, 0, 0, 0, 0, 0]))
        await rest
        self.closed.set()


class TwoAddresses(Resolver):
    """Knows two addresses of every name."""

    async def look_up(
        self,
        host: str,
        port: int,
        lookups: asyncio.Semaphore,
        check: Callable[[], None] = lambda: None,
    ) -> list[Address]:
        return [ipaddress.IPv4Address("127.0.0.2"), ipaddress.IPv4Address("127.0.0.3")]


@pytest.fixture
async def slow(running_proxy: RunningProxy, serve) -> tuple[SlowUpstream, UpstreamProxy]:
    """A slow upstream that the running proxy uses."""
    server = SlowUpstream()
    upstream = UpstreamProxy("127.0.0.1", await serve(server.serve))
    running_proxy.proxy.update(loopback_policy(), upstream=upstream)
    return server, upstream


@pytest.mark.parametrize("protocol", ["http", "socks"])
async def test_a_dial_that_new_rules_deny_is_refused_when_it_succeeds(
    protocol: str, running_proxy: RunningProxy, slow: tuple[SlowUpstream, UpstreamProxy]
) -> None:
    server, upstream = slow
    asking = (
        connect(running_proxy, "127.0.0.2:80")
        if protocol == "http"
        else socks(running_proxy, SOCKS_REQUEST)
    )
    asked = asyncio.create_task(asking)
    await asyncio.wait_for(server.asked.get(), PATIENCE)

    running_proxy.proxy.update(DENIED, upstream=upstream)
    server.may_answer.set()

    answer, _, writer = await asyncio.wait_for(asked, PATIENCE)
    assert answer.startswith(b"HTTP/1.1 403 " if protocol == "http" else b"\x05\x02")
    await asyncio.wait_for(server.closed.wait(), PATIENCE)
    assert running_proxy.refusals == [
        ("127.0.0.2:80", "127.0.0.2 is denied by the sandbox's network")
    ]
    writer.close()


async def test_new_rules_apply_to_the_next_address_of_a_dial(
    running_proxy: RunningProxy, slow: tuple[SlowUpstream, UpstreamProxy]
) -> None:
    server, upstream = slow
    server.status = 1
    running_proxy.proxy.dialer.resolver = TwoAddresses()
    asked = asyncio.create_task(connect(running_proxy, "two.example:80"))
    assert await asyncio.wait_for(server.asked.get(), PATIENCE) == "127.0.0.2"

    running_proxy.proxy.update(DENIED, upstream=upstream)
    server.may_answer.set()

    answer, _, writer = await asyncio.wait_for(asked, PATIENCE)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert server.asked.empty()
    writer.close()


async def test_a_name_that_waits_for_its_lookup_is_not_looked_up_after_new_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full(asyncio.Semaphore):
        async def acquire(self) -> Literal[True]:
            waiting.set()
            return await super().acquire()

    waiting = asyncio.Event()
    looked_up: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **_: looked_up.append(args) or [])
    dialer = Dialer(loopback_policy(), lookups=Full(0))
    dial = asyncio.create_task(dialer.dial("data.example", 80))
    await asyncio.wait_for(waiting.wait(), PATIENCE)

    dialer.policy = loopback_policy(deny_out=["0.0.0.0/0"])
    dialer.lookups.release()

    with pytest.raises(PermissionDeniedError, match=r"data\.example is denied"):
        await asyncio.wait_for(dial, PATIENCE)
    assert looked_up == []
    assert not dialer.lookups.locked()


@dataclass
class Intercepted:
    """A proxy with header rules, which can be replaced, and the secrets they use."""

    running: RunningProxy
    authority: CertificateAuthority
    secrets: dict[str, str] = field(default_factory=lambda: {"token": "first"})

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.certificate_pem)

    def set_rules(self, **rules: dict[str, str]) -> None:
        interceptor = Interceptor(self.authority, rules, self.secrets.get, self.trust)
        self.running.proxy.update(loopback_policy(), interceptor=interceptor if rules else None)

    async def request(self, stream: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
        stream[1].write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return await asyncio.wait_for(read_answer(stream[0]), PATIENCE)


@pytest.fixture
def intercepted(running_proxy: RunningProxy, authority: CertificateAuthority) -> Intercepted:
    made = Intercepted(running_proxy, authority)
    made.set_rules(localhost={"X-Token": "${e2b.secrets.token}"})
    return made


async def test_the_next_request_of_an_open_tunnel_gets_the_new_rule_and_secret(
    intercepted: Intercepted, serve
) -> None:
    port = await serve(show_requests, intercepted.authority.context_for("localhost"))
    stream = await open_tls(intercepted.running, port, intercepted.trust)
    assert b"X-Token: first" in await intercepted.request(stream)

    intercepted.secrets["token"] = "second"
    assert b"X-Token: second" in await intercepted.request(stream)

    intercepted.set_rules(localhost={"X-Other": "third"})
    seen = await intercepted.request(stream)
    assert b"X-Other: third" in seen
    assert b"X-Token" not in seen
    stream[1].close()


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (lambda it: it.set_rules(), 421, "the header rule for localhost was removed"),
        (lambda it: it.set_rules(other={}), 421, "the header rule for localhost was removed"),
        (lambda it: it.secrets.clear(), 403, "the secret token does not exist"),
    ],
    ids=["no rules", "other rules", "no secret"],
)
async def test_a_request_whose_rule_or_secret_is_gone_is_refused_and_ends_the_tunnel(
    change: Callable[[Intercepted], None],
    status: int,
    reason: str,
    intercepted: Intercepted,
    serve,
) -> None:
    seen: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                seen.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    port = await serve(record, intercepted.authority.context_for("localhost"))
    stream = await open_tls(intercepted.running, port, intercepted.trust)
    assert await intercepted.request(stream) == b"ok"

    change(intercepted)
    stream[1].write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await asyncio.wait_for(stream[0].read(), PATIENCE)

    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert reason.encode() in answer
    assert len(seen) == 1
    ((target, recorded),) = intercepted.running.refusals
    assert target == f"localhost:{port}"
    assert reason in recorded
    stream[1].close()


async def switch_to_echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
    await echo(reader, writer)


UPGRADE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"


async def test_a_tunnel_that_switched_protocols_closes_when_its_rule_changes(
    intercepted: Intercepted, serve
) -> None:
    port = await serve(switch_to_echo, intercepted.authority.context_for("localhost"))
    reader, writer = await open_tls(intercepted.running, port, intercepted.trust)
    writer.write(UPGRADE)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")

    intercepted.set_rules(localhost={"X-Token": "${e2b.secrets.token}"}, other={"A": "b"})
    writer.write(b"still here")
    assert await asyncio.wait_for(reader.readexactly(10), PATIENCE) == b"still here"

    intercepted.set_rules(localhost={"X-Token": "another"})
    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    writer.close()


async def test_a_switch_of_protocols_is_refused_when_the_rule_has_changed_meanwhile(
    intercepted: Intercepted, serve
) -> None:
    asked, may_switch = asyncio.Event(), asyncio.Event()

    async def wait_and_switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await may_switch.wait()
        reader.feed_data(head)
        await switch_to_echo(reader, writer)

    port = await serve(wait_and_switch, intercepted.authority.context_for("localhost"))
    reader, writer = await open_tls(intercepted.running, port, intercepted.trust)
    writer.write(UPGRADE)
    await asyncio.wait_for(asked.wait(), PATIENCE)

    intercepted.set_rules(localhost={"X-Token": "another"})
    may_switch.set()

    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert b"the header rule for localhost has changed" in answer
    writer.close()


async def test_a_new_header_rule_closes_plain_tunnels_to_its_name_only(
    intercepted: Intercepted, serve
) -> None:
    intercepted.set_rules()
    port = await serve(echo)
    _, reader, writer = await connect(intercepted.running, f"localhost:{port}")
    kept = [
        await connect(intercepted.running, f"127.0.0.1:{port}"),
        # Rules set headers on what comes by CONNECT only.
        await socks(intercepted.running, b"\x05\x01\x00\x03\x09localhost" + port.to_bytes(2)),
    ]

    intercepted.set_rules(localhost={"A": "b"})

    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    writer.close()
    for _, reader, writer in kept:
        writer.write(b"still here")
        assert await asyncio.wait_for(reader.readexactly(10), PATIENCE) == b"still here"
        writer.close()


async def test_an_intercepted_dial_that_new_rules_deny_is_refused_when_it_succeeds(
    intercepted: Intercepted, serve
) -> None:
    proxy, closed = intercepted.running.proxy, asyncio.Event()
    denied = loopback_policy(deny_out=["127.0.0.0/8", "::1"])

    async def wait_for_end(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()
        closed.set()

    tls = intercepted.authority.context_for("localhost")
    # Called during the handshake with the server, and so during the dial.
    tls.sni_callback = lambda *_: proxy.update(denied, interceptor=proxy.interceptor)
    port = await serve(wait_for_end, tls)

    answer, _, writer = await asyncio.wait_for(
        connect(intercepted.running, f"localhost:{port}"), PATIENCE
    )

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert intercepted.running.refusals == [
        (f"localhost:{port}", "localhost is denied by the sandbox's network")
    ]
    await asyncio.wait_for(closed.wait(), PATIENCE)
    writer.close()


async def test_a_new_upstream_closes_tunnels_that_go_another_way(
    running_proxy: RunningProxy, serve
) -> None:
    port = await serve(echo)
    _, reader, writer = await connect(running_proxy, f"127.0.0.1:{port}")

    running_proxy.proxy.update(loopback_policy(), upstream=UpstreamProxy("127.0.0.1", 1))

    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    writer.close()


async def test_an_upstream_that_is_removed_closes_the_dials_through_it(
    running_proxy: RunningProxy, slow: tuple[SlowUpstream, UpstreamProxy]
) -> None:
    server, _ = slow
    reader, writer = await running_proxy.open()
    writer.write(b"CONNECT 127.0.0.2:80 HTTP/1.1\r\n\r\n")
    await asyncio.wait_for(server.asked.get(), PATIENCE)

    running_proxy.proxy.update(loopback_policy())

    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    await asyncio.wait_for(server.closed.wait(), PATIENCE)
    writer.close()


def test_an_upstream_with_tls_equals_itself_when_it_is_configured_again() -> None:
    def configured(*, tls: bool, ca_cert: str | None = None) -> UpstreamProxy:
        settings = EgressTls(enabled=tls, ca_cert=ca_cert)
        return UpstreamProxy.from_config(EgressProxy(address="up.example:1080", tls=settings))

    authority = ssl.create_default_context().get_ca_certs(binary_form=True)[0]

    assert configured(tls=True) == configured(tls=True)
    assert configured(tls=True) != configured(tls=False)
    assert configured(tls=True) != configured(tls=True, ca_cert=ssl.DER_cert_to_PEM_cert(authority))
