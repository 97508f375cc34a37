"""Connections that wait for a request are closed, those that answer one are not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.testing import bind_unused_port

from sbx_jupyter.service.head_timer import HeadTimer

SECONDS = 0.2


class Holding(HTTPServerConnectionDelegate):
    """Answers nothing, for as long as it takes."""

    def __init__(self) -> None:
        self.timer = HeadTimer(SECONDS)

    def start_request(
        self, server_conn: object, request_conn: HTTPConnection
    ) -> HTTPMessageDelegate:
        self.timer.begin(server_conn, request_conn)  # type: ignore[arg-type]
        timer = self.timer

        class Request(HTTPMessageDelegate):
            def headers_received(
                self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
            ) -> None:
                timer.end(server_conn)

        return Request()


@pytest.fixture
async def port_and_timer() -> AsyncIterator[tuple[int, HeadTimer]]:
    holding = Holding()
    server = HTTPServer(holding)
    sock, port = bind_unused_port()
    server.add_socket(sock)
    yield port, holding.timer
    holding.timer.stop()
    server.stop()
    await server.close_all_connections()


async def test_only_connections_without_a_request_are_closed(
    port_and_timer: tuple[int, HeadTimer],
) -> None:
    port, timer = port_and_timer
    asking, asker = await asyncio.open_connection("127.0.0.1", port)
    asker.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    for sent in (b"", b"GET / HTTP/1.1\r\nHost: "):  # one says nothing, one stops half way
        silent, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(sent)
        assert await silent.read() == b""
        other.close()

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2 * SECONDS):
            pytest.fail(f"the busy one was closed: {await asking.read()!r}")
    assert len(timer) == 0
    asker.close()
