"""Envelopes of output leave in order and whole, and without copies where the socket has room."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest
from tornado.http1connection import HTTP1Connection
from tornado.iostream import IOStream, StreamClosedError

from sbx_jupyter.service.counters import Counters
from sbx_jupyter.service.runtime.streams import StreamWriter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LARGE = bytes(range(256)) * 40_000
"""Ten megabytes: more than a socket takes."""


class Way:
    """A stream writer with the other end of its connection."""

    def __init__(self) -> None:
        ours, self.client = socket.socketpair()
        self.client.setblocking(False)
        self.stream = IOStream(ours)
        self.connection = HTTP1Connection(self.stream, is_client=False)
        self.connection._chunking_output = True
        self.writes = 0
        self.writer = StreamWriter(self.connection, Counters(), self._begin, 90.0)
        self.writer.is_begun = True

    async def _begin(self, envelope: bytes) -> None:
        raise AssertionError("it has begun")

    async def receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            received += await asyncio.get_running_loop().sock_recv(self.client, 1 << 20)
        return received


@pytest.fixture
async def way(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Way]:
    way = Way()
    write = way.connection.write

    def counted(chunk: bytes) -> Any:
        way.writes += 1
        return write(chunk)

    monkeypatch.setattr(way.connection, "write", counted)
    yield way
    way.stream.close()
    way.client.close()


async def test_a_socket_with_room_takes_the_parts_as_they_are(way: Way) -> None:
    await way.writer.send_parts((b"head", b"content", b"!"))

    assert await way.receive(17) == b"c\r\nheadcontent!\r\n"
    assert way.writes == 0


async def test_what_a_full_socket_does_not_take_follows_in_order(way: Way) -> None:
    chunk = b"%x\r\n" % (len(LARGE) + 4) + b"head" + LARGE + b"\r\n"
    receiving = asyncio.create_task(way.receive(2 * len(chunk) + 6))

    for _ in range(2):
        await way.writer.send_parts((b"head", LARGE))
    await way.writer.send_raw(b"x")

    assert await receiving == 2 * chunk + b"1\r\nx\r\n"


async def test_nothing_overtakes_what_still_waits(way: Way) -> None:
    way.connection.write(LARGE)
    assert way.stream.writing()
    sending = asyncio.create_task(way.writer.send_parts((b"a", b"b")))

    chunk = b"%x\r\n" % len(LARGE) + LARGE + b"\r\n"
    received = await way.receive(len(chunk) + 7)

    assert received == chunk + b"2\r\nab\r\n"
    await sending


async def test_an_answer_without_chunks_has_none(way: Way) -> None:
    way.connection._chunking_output = False

    await way.writer.send_parts((b"a", b"b"))

    assert await way.receive(2) == b"ab"


async def test_a_client_that_left_is_noticed(way: Way) -> None:
    way.client.close()
    await way.writer.send_parts((b"head", LARGE))  # what tornado tells with the next

    with pytest.raises(StreamClosedError):
        await way.writer.send_parts((b"head", LARGE))


async def test_the_bytes_are_counted(way: Way) -> None:
    await way.writer.send_parts((b"head", b"content"))
    await way.writer.send_raw(b"more")

    assert way.writer._counters.sent_bytes == 15
