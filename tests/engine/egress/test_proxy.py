"""HTTP and SOCKS5 through the proxy, and what it refuses."""

from __future__ import annotations

import asyncio

import pytest

from tests.engine.egress.conftest import RunningProxy, loopback_policy
from tests.waiting import PATIENCE


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()


async def show_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
    await writer.drain()


Answered = tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]
"""What the proxy said first, and the connection through it."""


async def connect(running: RunningProxy, target: str) -> Answered:
    reader, writer = await running.open()
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    return await reader.readuntil(b"\r\n\r\n"), reader, writer


async def socks(running: RunningProxy, request: bytes) -> Answered:
    reader, writer = await running.open()
    writer.write(b"\x05\x01\x00")
    assert await reader.readexactly(2) == b"\x05\x00"
    writer.write(request)
    return await reader.readexactly(10), reader, writer


async def test_a_tunnel_carries_bytes_both_ways(running_proxy, serve) -> None:
    port = await serve(echo)

    head, reader, writer = await connect(running_proxy, f"127.0.0.1:{port}")
    assert head.startswith(b"HTTP/1.1 200 ")

    payload = bytes(range(256)) * 4096
    writer.write(payload)
    assert await reader.readexactly(len(payload)) == payload
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()


async def test_a_plain_request_reaches_its_server_in_origin_form(running_proxy, serve) -> None:
    port = await serve(show_request)

    reader, writer = await running_proxy.open()
    writer.write(
        f"GET http://127.0.0.1:{port}/a%20b?c=d HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nX-A: 1\r\n\r\n".encode()
    )
    answer = await reader.read()
    writer.close()

    assert b"GET /a%20b?c=d HTTP/1.1\r\n" in answer
    assert b"X-A: 1\r\n" in answer
    assert b"Proxy-" not in answer


@pytest.mark.parametrize("by_name", [False, True])
async def test_socks_connects_by_address_and_by_name(running_proxy, serve, by_name) -> None:
    port = await serve(echo)
    host = b"\x03\x09localhost" if by_name else b"\x01\x7f\x00\x00\x01"

    answer, reader, writer = await socks(running_proxy, b"\x05\x01\x00" + host + port.to_bytes(2))
    assert answer[1] == 0

    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    writer.close()


async def test_a_refused_target_gets_403_and_a_record(running_proxy, serve) -> None:
    port = await serve(echo)
    running_proxy.proxy.update(loopback_policy(deny_out=["0.0.0.0/0"]))

    head, _, writer = await connect(running_proxy, f"127.0.0.1:{port}")
    writer.close()

    assert head.startswith(b"HTTP/1.1 403 ")
    assert running_proxy.refusals == [
        (f"127.0.0.1:{port}", "127.0.0.1 is denied by the sandbox's network")
    ]


@pytest.mark.parametrize(
    "target", ["169.254.169.254:80", "10.0.0.1:443", "[::ffff:10.0.0.1]:80", "[fe80::1]:80"]
)
async def test_private_addresses_are_refused(running_proxy, target) -> None:
    head, _, writer = await connect(running_proxy, target)
    writer.close()

    assert head.startswith(b"HTTP/1.1 403 ")


async def test_socks_to_a_private_address_is_refused(running_proxy) -> None:
    answer, _, writer = await socks(
        running_proxy, b"\x05\x01\x00\x01\xa9\xfe\xa9\xfe" + (80).to_bytes(2)
    )
    writer.close()

    assert answer[1] == 2


@pytest.mark.parametrize("name", [b"\x1b[2J\r\nforged line", b"a\x1bc.example", b"\xff", b"a b"])
async def test_what_is_no_name_is_refused_and_reaches_no_log(running_proxy, name) -> None:
    answer, _, writer = await socks(
        running_proxy, b"\x05\x01\x00\x03" + bytes([len(name)]) + name + (80).to_bytes(2)
    )
    writer.close()

    assert answer[1] == 8
    assert running_proxy.refusals == []


async def test_a_name_that_leads_to_a_private_address_is_refused(serve) -> None:
    from sbx_jupyter.engine.egress.policy import EgressPolicy
    from sbx_jupyter.engine.egress.proxy.dialer import Dialer
    from sbx_jupyter.errors import PermissionDeniedError

    port = await serve(echo)

    with pytest.raises(PermissionDeniedError, match="not a public address"):
        await Dialer(EgressPolicy()).dial("localhost", port)


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/1.1",
        b"GET https://example.com/ HTTP/1.1",
        b"GET ftp://example.com/ HTTP/1.1",
        b"CONNECT example.com:99999 HTTP/1.1",
        b"CONNECT : HTTP/1.1",
        b"nonsense",
        b"GET http://\xff/ HTTP/1.1",
        b"GET http://a\x1bc/ HTTP/1.1",
        b"CONNECT a\x1bc.example:443 HTTP/1.1",
    ],
)
async def test_other_requests_get_400(running_proxy, request_line) -> None:
    reader, writer = await running_proxy.open()
    writer.write(request_line + b"\r\n\r\n")

    answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_an_endless_request_head_is_cut_off(running_proxy) -> None:
    reader, writer = await running_proxy.open()
    writer.write(b"GET http://example.com/ HTTP/1.1\r\n" + b"a: b\r\n" * 20_000)

    answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_a_closed_port_gets_502(running_proxy, serve) -> None:
    head, _, writer = await connect(running_proxy, "127.0.0.1:1")
    writer.close()

    assert head.startswith(b"HTTP/1.1 502 ")


async def test_new_rules_close_a_tunnel_that_they_refuse(running_proxy, serve) -> None:
    port = await serve(echo)
    _, reader, writer = await connect(running_proxy, f"127.0.0.1:{port}")

    running_proxy.proxy.update(loopback_policy(deny_out=["127.0.0.0/8"]))

    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    writer.close()


async def test_new_rules_leave_a_tunnel_that_they_allow(running_proxy, serve) -> None:
    port = await serve(echo)
    _, reader, writer = await connect(running_proxy, f"127.0.0.1:{port}")

    running_proxy.proxy.update(loopback_policy(allow_out=["127.0.0.1"], deny_out=["0.0.0.0/0"]))
    writer.write(b"still here")

    assert await reader.readexactly(10) == b"still here"
    writer.close()


async def test_closing_the_proxy_closes_its_tunnels(running_proxy, serve) -> None:
    port = await serve(echo)
    _, reader, writer = await connect(running_proxy, f"127.0.0.1:{port}")

    await running_proxy.proxy.aclose()

    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
    writer.close()
