"""HTTP with a program of a sandbox: what is read, what is refused, which connections are kept."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from sbx_jupyter.server.ports import wire
from sbx_jupyter.server.ports.tunnel import BrokenAnswerError, Tunnel, TunnelReader
from sbx_jupyter.server.ports.tunnels import MAX_IDLE_PER_PORT, Tunnels
from tests.waiting import async_until


@asynccontextmanager
async def talking_to(answer: bytes, *, closes=True):
    """A connection to a program that reads a request's head and sends ``answer``."""
    requests = []

    async def serve(reader, writer):
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        if closes:
            writer.close()
        else:
            requests.append(await reader.read())
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    reader = TunnelReader(limit=wire.CHUNK, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, *server.sockets[0].getsockname())
    tunnel = Tunnel(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
    try:
        yield tunnel, requests
    finally:
        tunnel.close()
        server.close()
        await server.wait_closed()


async def read_all(answer):
    pieces = []
    while piece := await answer.receive():
        pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize(
    ("raw", "body", "stays"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
        (b"HTTP/1.1 200\nContent-Length: 5\n\nhello", b"hello", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, more", b"hello", False),
        (
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
            b"hello",
            False,
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end", False),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: no\r\n\r\n",
            b"hello",
            True,
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", b"", True),
    ],
)
async def test_answers_are_read_to_their_end(raw, body, stays):
    is_open_ended = body == b"until the end"
    async with talking_to(raw, closes=is_open_ended) as (tunnel, _):
        answer = await wire.request(tunnel, "GET", "/", [("Host", "x")])

        assert await read_all(answer) == body
        assert (answer.close() is tunnel) is stays


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5",
        b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * (wire.CHUNK * 2) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Many: x\r\n" * 10_000 + b"\r\n",
    ],
)
async def test_what_is_not_http_is_refused(raw):
    async with talking_to(raw) as (tunnel, _):
        with pytest.raises(BrokenAnswerError):
            await wire.request(tunnel, "GET", "/", [("Host", "x")])


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nbad\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ],
)
async def test_a_body_that_breaks_off_is_never_whole(raw):
    async with talking_to(raw) as (tunnel, _):
        answer = await wire.request(tunnel, "GET", "/", [("Host", "x")])

        with pytest.raises(BrokenAnswerError):
            await read_all(answer)
        assert answer.close() is None


async def test_of_two_framings_chunks_count_and_the_length_is_not_passed_on():
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with talking_to(raw + b"2\r\nhi\r\n0\r\n\r\n") as (tunnel, _):
        answer = await wire.request(tunnel, "GET", "/", [("Host", "x")])

        assert "content-length" not in {name.lower() for name, _ in answer.headers}
        assert await read_all(answer) == b"hi"


async def test_a_body_without_a_length_is_sent_in_chunks():
    async def body():
        yield b"hello"
        yield b"world"

    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with talking_to(raw, closes=False) as (tunnel, requests):
        await wire.request(tunnel, "DELETE", "/", [("Host", "x")], body())
        tunnel.writer.close()

        async def has_ended():
            return len(requests) == 2

        await async_until(has_ended)

    assert b"Transfer-Encoding: chunked\r\n" in requests[0]
    assert requests[1] == b"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n"


async def test_a_refusal_ends_an_upload_that_nobody_reads():
    async def endless():
        while True:
            yield bytes(1 << 20)

    raw = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"

    is_left = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await is_left.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        tunnel = SimpleNamespace(reader=reader, writer=writer, close=writer.transport.abort)

        answer = await wire.request(tunnel, "POST", "/", [("Host", "x")], endless())  # type: ignore[arg-type]

        assert (answer.status, await read_all(answer), answer.close()) == (413, b"no", None)
        is_left.set()


async def test_a_header_that_would_be_two_is_not_sent():
    async with talking_to(b"") as (tunnel, _):
        with pytest.raises(BrokenAnswerError, match="cannot be sent"):
            await wire.request(tunnel, "GET", "/", [("X", "a\r\nY: b")])


async def test_kept_connections_are_used_again_unless_something_arrived_meanwhile():
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    upstream = SimpleNamespace(runtime=object(), port=8000)
    tunnels = Tunnels()
    async with (
        talking_to(raw, closes=False) as (quiet, _),
        talking_to(raw, closes=False) as (
            loud,
            _,
        ),
    ):
        for tunnel in (quiet, loud):
            tunnels.give_back(upstream, tunnel)  # type: ignore[arg-type]
        loud.reader.feed_data(b"HTTP/1.1 408 Request Timeout\r\n\r\n")

        found = await tunnels.take(upstream, may_be_used=True)  # type: ignore[arg-type]

        assert found is quiet
        assert found.was_used
        assert loud.writer.transport.is_closing()


async def test_a_port_keeps_few_connections():
    upstream = SimpleNamespace(runtime=object(), port=8000)
    tunnels = Tunnels()
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with (
        talking_to(raw, closes=False) as (first, _),
        talking_to(raw, closes=False) as (
            last,
            _,
        ),
    ):
        for _ in range(MAX_IDLE_PER_PORT):
            tunnels.give_back(upstream, first)  # type: ignore[arg-type]

        tunnels.give_back(upstream, last)  # type: ignore[arg-type]

        assert last.writer.transport.is_closing()
        assert not first.writer.transport.is_closing()
        tunnels.close()
        assert first.writer.transport.is_closing()
