"""Writes the envelopes of a server stream as fast as the client reads (interface 3.1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tornado.iostream import IOStream

from sbx_jupyter.protocol import connect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tornado.http1connection import HTTP1Connection
    from tornado.httputil import HTTPHeaders

    from sbx_jupyter.service.counters import Counters

DEFAULT_KEEPALIVE: Final = 90.0
_MAX_KEEPALIVE: Final = 86400


class StreamWriter:
    """Sends the envelopes of one stream, and keepalives when there is nothing to send."""

    def __init__(
        self,
        connection: HTTP1Connection,
        counters: Counters,
        begin: Callable[[bytes], Awaitable[None]],
        interval: float,
    ) -> None:
        """``begin`` sends the head of the answer, in one piece with the first envelope."""
        self._connection = connection
        self._counters = counters
        self._begin = begin
        self._interval = interval
        self._is_writing = False
        self.is_begun = False
        """Whether the head of the answer was sent."""
        self._keepalive: bytes | None = None
        self._last_message = b""
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, payload: bytes) -> None:
        """Send one message; raises ``StreamClosedError`` when the client has disconnected."""
        await self.send_raw(connect.envelope_header(len(payload)) + payload)

    def send_last(self, payload: bytes) -> None:
        """Send the last message in one piece with the end of the stream, which must follow now."""
        self._last_message = connect.encode_envelope(payload)

    async def send_raw(self, envelope: bytes) -> None:
        """Send a complete envelope; raises ``StreamClosedError``."""
        if self._last_message:
            envelope, self._last_message = self._last_message + envelope, b""
        self._is_writing = True
        try:
            self._counters.sent_bytes += len(envelope)
            if self.is_begun:
                await self._connection.write(envelope)
                return
            self.is_begun = True
            await self._begin(envelope)
        finally:
            self._is_writing = False
            self._last = self._loop.time()

    async def send_parts(self, parts: tuple[bytes, ...]) -> None:
        """Send the parts of a complete envelope; raises ``StreamClosedError``.

        Bytes that the socket takes at once are not copied.
        """
        stream = self._idle_stream()
        rest = None if stream is None else self._send_now(stream, parts)
        if stream is None or rest is None:
            await self.send_raw(b"".join(parts))
            return
        self._last = self._loop.time()
        if rest:
            self._is_writing = True
            try:
                await stream.write(rest)
            finally:
                self._is_writing = False

    def _idle_stream(self) -> IOStream | None:
        """The stream, if a chunk may go to its socket now."""
        stream = self._connection.stream
        is_plain = self.is_begun and not self._last_message and _is_chunked(self._connection)
        if not is_plain or type(stream) is not IOStream or stream.closed() or stream.writing():
            return None
        return stream

    def _send_now(self, stream: IOStream, parts: tuple[bytes, ...]) -> bytes | None:
        """Send an envelope as one chunk; returns the bytes that are still to be written.

        ``None`` when nothing was sent and all of it has to go the usual way.
        """
        size = sum(map(len, parts))
        chunk = (b"%x\r\n" % size, *parts, b"\r\n")
        assert stream.socket is not None, "only a closed stream has none"
        try:
            taken = stream.socket.sendmsg(chunk)
        except OSError:  # no room, or the usual way finds out why not
            return None
        self._counters.sent_bytes += size
        return b"".join(chunk)[taken:] if taken < sum(map(len, chunk)) else b""

    def ping_with(self, payload: bytes) -> None:
        """Send ``payload`` whenever nothing was sent for the interval."""
        self._keepalive = connect.encode_envelope(payload)
        self._timer = self._loop.call_later(self._interval, self._tick)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        assert self._keepalive is not None
        silence = self._loop.time() - self._last
        if silence < self._interval - 0.005:
            self._timer = self._loop.call_later(self._interval - silence, self._tick)
            return
        if not self._is_writing and self._connection.stream is not None:
            if self._connection.stream.closed():
                return
            self._connection.write(self._keepalive)
        self._last = self._loop.time()
        self._timer = self._loop.call_later(self._interval, self._tick)


def _is_chunked(connection: HTTP1Connection) -> bool:
    # Tornado tells nobody whether it sends the length of each piece.
    return connection._chunking_output  # pyright: ignore[reportPrivateUsage]


def keepalive_of(headers: HTTPHeaders) -> float:
    """Seconds between pings: the header, else 90 (interface 3.5)."""
    text = headers.get("Keepalive-Ping-Interval")
    if (
        text is not None
        and text.isascii()
        and text.isdigit()
        and 0 < int(text[:6]) <= _MAX_KEEPALIVE
    ):
        return float(text)
    return DEFAULT_KEEPALIVE
