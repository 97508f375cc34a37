"""Carries one request to a port of a sandbox and the answer back, of any size (interface 2)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, cast

from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.iostream import IOStream, StreamClosedError

from sbx_jupyter.service.answers import reset
from sbx_jupyter.service.gateway import refusals
from sbx_jupyter.service.gateway.gateway import Refused, masked_host, open_port
from sbx_jupyter.service.gateway.raw_response import hold, send_refusal
from sbx_jupyter.service.log_format import note_request

if TYPE_CHECKING:
    from sbx_jupyter.protocol.access import Route
    from sbx_jupyter.service.context import RoutedRequest, Service
    from sbx_jupyter.service.counters import Counters


_CHUNK: Final = 256 * 1024
_UNLIMITED: Final = 1 << 62
_PATIENCE_BYTES: Final = 1024 * 1024
_FRAMED_BY_TORNADO: Final = ("POST", "PUT", "PATCH")
_HOP_BY_HOP: Final = ("Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Trailer")


class Forward(HTTPMessageDelegate):
    """Receives a client's request and sends it on, piece by piece, as the sandbox takes it."""

    def __init__(self, service: Service, request: RoutedRequest, route: Route) -> None:
        self.service = service
        self.request = request
        self.route = route
        self.client = cast("HTTP1Connection", request.connection)
        self._stream: IOStream | None = None
        self._upstream: HTTP1Connection | None = None
        self._frames_body = False
        self._refusal: refusals.Refusal | None = None
        self._swallowed = 0
        self._is_counted = False
        self._started = time.monotonic()

    # What the client sends.

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        self.client.set_close_callback(self.on_connection_close)
        try:
            head = await self._open()
        except Refused as refused:
            self._refusal = refused.refusal
            return
        assert self._stream is not None
        self._upstream = HTTP1Connection(
            self._stream,
            is_client=True,
            params=HTTP1ConnectionParameters(chunk_size=_CHUNK, max_body_size=_UNLIMITED),
        )
        line = RequestStartLine(self.request.method or "GET", self.request.uri or "/", "HTTP/1.1")
        hold(self.service, self._upstream.write_headers(line, head))
        answer = Answer(self, self._upstream)
        if _is_upgrade(self.request.headers):
            self._upstream.finish()  # there is no body, and an answer without 101 is the last
            await self._upgrade(answer)
        else:
            self.service.tasks.spawn(self._receive(answer))

    async def data_received(self, chunk: bytes) -> None:
        self.service.counters.received_bytes += len(chunk)
        if self._upstream is None:
            self._swallow(len(chunk))
            return
        if self._upstream.stream is None:
            return  # the answer has no end but the connection's, and needs no more of the request
        if self._frames_body:
            chunk = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        try:
            await self._upstream.write(chunk)
        except StreamClosedError:
            return  # the answer says what happened, and ends the connection

    def finish(self) -> None:
        if self._upstream is None:
            self._end_refusal()
        elif self._upstream.stream is not None and not self._upstream.stream.closed():
            if self._frames_body:
                hold(self.service, self._upstream.write(b"0\r\n\r\n"))
            self._upstream.finish()

    def on_connection_close(self) -> None:
        """The client went away."""
        self.close()

    def close(self) -> None:
        """Let go of the sandbox's side."""
        if self._stream is not None:
            self._stream.close()
        if self._is_counted:
            self._is_counted = False
            self.service.connections.give_back(self.route.sandbox_id)

    # The sandbox's side.

    async def _open(self) -> HTTPHeaders:
        """Connect, and give the headers for the sandbox; raises ``Refused``."""
        limit = self.service.settings.max_connections_per_sandbox
        if not self.service.connections.take(self.route.sandbox_id, limit):
            message = refusals.TOO_MANY_CONNECTIONS
            raise Refused(refusals.refuse(429, self.route, message, connectionLimit=limit))
        self._is_counted = True
        try:
            self._stream, row = await open_port(self.service, self.request, self.route)
        except Refused:
            self.close()
            raise
        return self._head(masked_host(row, self.route.port))

    def _head(self, mask: str | None) -> HTTPHeaders:
        headers = self.request.headers.copy()
        if mask is not None:
            headers["X-Forwarded-Host"] = headers.get("Host", "")
            headers["Host"] = mask
        if _is_upgrade(headers):
            return headers
        for name in (*_HOP_BY_HOP, "Expect"):
            headers.pop(name, None)
        headers["Connection"] = "close"
        is_framed = self.request.method in _FRAMED_BY_TORNADO
        if "Transfer-Encoding" in headers:
            self._frames_body = not is_framed
        elif is_framed and "Content-Length" not in headers:
            headers["Content-Length"] = "0"
        return headers

    async def _receive(self, answer: Answer) -> None:
        """Read the answer to its end and close both what is ended and what broke."""
        assert self._upstream is not None
        try:
            await self._upstream.read_response(answer)
            if answer.is_open_ended and self._stream is not None:
                await answer.pass_until_close(self._stream)
        except StreamClosedError:
            pass
        finally:
            if not answer.is_switched:
                self.close()
        stream = self.client.stream
        if answer.is_finished or answer.is_switched or stream is None or stream.closed():
            return
        if answer.is_begun:
            reset(self.client.stream)
            return
        self._refusal = refusals.refuse(502, self.route, refusals.CLOSED_PORT, port=self.route.port)
        self._end_refusal()

    def note(self, status: int) -> None:
        """Log and count the end of the request."""
        note_request(self.service, self.request, "port", status, self._started)

    # Upgrades.

    async def _upgrade(self, answer: Answer) -> None:
        """Wait for the answer to an upgrade; after 101 both sides exchange bytes as they like."""
        visible = self.client.stream
        if visible is None:
            return
        visible.set_close_callback(self.on_connection_close)
        await self._receive(answer)
        if not answer.is_switched or self._stream is None:
            return
        visible.set_close_callback(None)
        client = self.client.detach()
        self.note(101)
        self.service.tasks.spawn(self._tunnel(client, self._stream))

    async def _tunnel(self, client: IOStream, stream: IOStream) -> None:
        self.service.counters.open_tunnels += 1
        try:
            await join(client, stream, self.service.counters)
        finally:
            self.service.counters.open_tunnels -= 1
            client.close()
            self.close()

    # Refusals.

    def _swallow(self, size: int) -> None:
        self._swallowed += size
        if self._swallowed > _PATIENCE_BYTES:
            self._end_refusal()

    def _end_refusal(self) -> None:
        refusal, self._refusal = self._refusal, None
        if refusal is None or self.client.stream is None or self.client.stream.closed():
            return
        send_refusal(self.client, self.request, refusal)
        note_request(self.service, self.request, "gateway", refusal.status, self._started)


class Answer(HTTPMessageDelegate):
    """Receives the answer of a sandbox's server and passes it to the client as it comes."""

    def __init__(self, forward: Forward, upstream: HTTP1Connection) -> None:
        self._forward = forward
        self._client = forward.client
        self._upstream = upstream
        self._status = 0
        self.is_begun = False
        self.is_finished = False
        self.is_switched = False
        self.is_open_ended = False
        """The answer goes on until the sandbox's server closes its connection."""

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        line = cast("ResponseStartLine", start_line)
        if 100 <= line.code < 200 and line.code != 101:
            return
        self._status = line.code
        if line.code == 101:
            self.is_switched = True
            self._upstream.detach()
        else:
            self.is_open_ended = self._has_no_end(line.code, headers)
            if self.is_open_ended:  # tornado would collect such a body before passing it on
                self._upstream.detach()
            for name in (*_HOP_BY_HOP, "Transfer-Encoding", "Connection"):
                headers.pop(name, None)
        self.is_begun = True
        await self._send(self._client.write_headers(line, headers))

    def _has_no_end(self, status: int, headers: HTTPHeaders) -> bool:
        if status in (204, 304) or self._forward.request.method == "HEAD":
            return False
        return "Content-Length" not in headers and "Transfer-Encoding" not in headers

    async def pass_until_close(self, stream: IOStream) -> None:
        """Pass on an answer that only the end of its connection ends."""
        try:
            while True:
                await self.data_received(await stream.read_bytes(_CHUNK, partial=True))
        except StreamClosedError:
            if stream.error is None or isinstance(stream.error, StreamClosedError):
                self.finish()

    async def data_received(self, chunk: bytes) -> None:
        self._forward.service.counters.sent_bytes += len(chunk)
        await self._send(self._client.write(chunk))

    def finish(self) -> None:
        self.is_finished = True
        if self._client.stream is not None and not self._client.stream.closed():
            self._client.finish()
        self._forward.note(self._status)

    def on_connection_close(self) -> None:
        """The sandbox's server ended in the middle; ``Forward`` sees that this is not finished."""

    async def _send(self, written: asyncio.Future[None]) -> None:
        try:
            await written
        except StreamClosedError:
            self._forward.close()


def _is_upgrade(headers: HTTPHeaders) -> bool:
    tokens = headers.get("Connection", "").lower().split(",")
    if headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers:
        return False  # a body comes first, so this is an ordinary request
    return "Upgrade" in headers and any(token.strip() == "upgrade" for token in tokens)


async def join(client: IOStream, stream: IOStream, counters: Counters) -> None:
    """Copy until either side ends; raises nothing for a side that goes away."""
    upload = asyncio.create_task(_copy(client, stream, counters))
    download = asyncio.create_task(_copy(stream, client, counters))
    try:
        await asyncio.wait((upload, download), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (upload, download):
            task.cancel()
        await asyncio.gather(upload, download, return_exceptions=True)


async def _copy(source: IOStream, destination: IOStream, counters: Counters) -> None:
    try:
        while True:
            chunk = await source.read_bytes(_CHUNK, partial=True)
            counters.sent_bytes += len(chunk)
            await destination.write(chunk)
    except StreamClosedError:
        return
