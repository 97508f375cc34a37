"""Forwards a request to a port of a sandbox, and the response back, of any size (interface 2)."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Final, cast

from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.iostream import IOStream, StreamClosedError

from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.access import ACCESS_TOKEN_HEADER, USAGE_HEADER
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT
from sbx_jupyter.service.answers import reset
from sbx_jupyter.service.gateway.code_usage import CodeUsageMeter
from sbx_jupyter.service.gateway.error_responder import ErrorResponder
from sbx_jupyter.service.gateway.error_responses import (
    CLOSED_PORT,
    NOT_FOUND,
    TOO_MANY_CONNECTIONS,
    ErrorResponse,
    GatewayError,
)
from sbx_jupyter.service.gateway.gateway import masked_host, open_port
from sbx_jupyter.service.gateway.interpreter_access import TOO_LARGE
from sbx_jupyter.service.gateway.raw_response import finish_write
from sbx_jupyter.service.log_format import note_request

if TYPE_CHECKING:
    from sbx_jupyter.protocol.access import Route
    from sbx_jupyter.service.context import RoutedRequest, Service
    from sbx_jupyter.service.counters import Counters


_CHUNK: Final = 256 * 1024
_UNLIMITED: Final = 1 << 62
_FRAMED_BY_TORNADO: Final = ("POST", "PUT", "PATCH")
_HOP_BY_HOP: Final = ("Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Trailer")


class ForwardedRequest(HTTPMessageDelegate):
    """Receives a client's request and sends each piece on as fast as the sandbox reads it."""

    def __init__(self, service: Service, request: RoutedRequest, route: Route) -> None:
        self.service = service
        self.request = request
        self.route = route
        self.client = cast("HTTP1Connection", request.connection)
        self._stream: IOStream | None = None
        self._upstream: HTTP1Connection | None = None
        self._frames_body = False
        self._responder: ErrorResponder | None = None
        self._is_counted = False
        self._body_size = 0
        self.usage: CodeUsageMeter | None = None
        self._started = time.monotonic()

    # The request of the client.

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        self.client.set_close_callback(self.on_connection_close)
        try:
            upstream_headers = await self._open()
        except GatewayError as error:
            self._responder = self._fail_with(error.response)
            return
        assert self._stream is not None
        if self.service.audit is not None:
            self.service.audit.port_call(self.request, self.service.engine)
        self._upstream = HTTP1Connection(
            self._stream,
            is_client=True,
            params=HTTP1ConnectionParameters(chunk_size=_CHUNK, max_body_size=_UNLIMITED),
        )
        line = RequestStartLine(self.request.method or "GET", self.request.uri or "/", "HTTP/1.1")
        finish_write(self.service, self._upstream.write_headers(line, upstream_headers))
        answer = ForwardedResponse(self, self._upstream)
        if _is_upgrade(self.request.headers):
            self._upstream.finish()  # there is no body, and an answer without 101 is the last
            await self._upgrade(answer)
        else:
            self.service.tasks.spawn(self._receive(answer))

    async def data_received(self, chunk: bytes) -> None:
        self.service.counters.received_bytes += len(chunk)
        if self._upstream is None:
            if self._responder is not None:
                self._responder.data_received(chunk)
            return
        self._body_size += len(chunk)
        if self.request.max_body is not None and self._body_size > self.request.max_body:
            self.close()
            return  # ``_receive`` answers
        if self._upstream.stream is None:
            return  # the response ends with its connection, and needs no more of the request
        if self._frames_body:
            chunk = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        try:
            await self._upstream.write(chunk)
        except StreamClosedError:
            return  # reading the response finds this too, and ends the connection

    def finish(self) -> None:
        if self._upstream is None:
            if self._responder is not None:
                self._responder.finish()
        elif self._upstream.stream is not None and not self._upstream.stream.closed():
            if self._frames_body:
                finish_write(self.service, self._upstream.write(b"0\r\n\r\n"))
            self._upstream.finish()

    def on_connection_close(self) -> None:
        """The client disconnected."""
        self.close()

    def close(self) -> None:
        """Close the connection to the sandbox."""
        if self._stream is not None:
            self._stream.close()
        if self._is_counted:
            self._is_counted = False
            self.service.connections.release(self.route.sandbox_id)

    # The sandbox's side.

    async def _open(self) -> HTTPHeaders:
        """Connect to the port; the headers to send to it. Raises ``GatewayError``."""
        limit = self.service.settings.max_connections_per_sandbox
        if not self.service.connections.acquire(self.route.sandbox_id, limit):
            raise GatewayError(
                ErrorResponse.for_route(
                    429, self.route, TOO_MANY_CONNECTIONS, connectionLimit=limit
                )
            )
        self._is_counted = True
        try:
            self._stream, row = await open_port(self.service, self.request, self.route)
            self.usage = await CodeUsageMeter.begin(self.service, self.request, self.route)
        except GatewayError:
            self.close()
            raise
        return self._upstream_headers(masked_host(row, self.route.port))

    def _upstream_headers(self, mask: str | None) -> HTTPHeaders:
        headers = self.request.headers.copy()
        if mask is not None:
            headers["X-Forwarded-Host"] = headers.get("Host", "")
            headers["Host"] = mask
        if self.route.port == INTERPRETER_PORT:
            headers.pop(ACCESS_TOKEN_HEADER, None)  # checked here; no token goes inside
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

    async def _receive(self, answer: ForwardedResponse) -> None:
        """Read the whole response; then close, unless the protocol was switched."""
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
        is_code = self.route.port == INTERPRETER_PORT
        if answer.is_begun or not (is_code or self._is_sandbox_running()):
            # Part of an answer must not look like all of it; and whether the request had an effect
            # is unknown when its sandbox ended, which "port is not open" would deny. Clients that
            # run code know how to tell their users that the sandbox was not found.
            reset(self.client.stream)
            return
        self._fail_with(self._failure()).finish()

    def _is_sandbox_running(self) -> bool:
        try:
            return self.service.engine.sandboxes.find_live(self.route.sandbox_id) is not None
        except SbxError:
            return False

    def _failure(self) -> ErrorResponse:
        """The error response that says why there is none from the sandbox."""
        if self.request.max_body is not None and self._body_size > self.request.max_body:
            return ErrorResponse.for_route(413, self.route, TOO_LARGE)
        if not self._is_sandbox_running():
            return ErrorResponse.for_route(502, self.route, NOT_FOUND)
        return ErrorResponse.for_route(502, self.route, CLOSED_PORT, port=self.route.port)

    def _fail_with(self, response: ErrorResponse) -> ErrorResponder:
        return ErrorResponder(self.service, self.request, response, self._started)

    def note(self, status: int) -> None:
        """Log and count the end of the request."""
        note_request(self.service, self.request, "port", status, self._started)

    # Upgrades.

    async def _upgrade(self, answer: ForwardedResponse) -> None:
        """Wait for the response to an upgrade; after 101, copy bytes both ways."""
        client_stream = self.client.stream
        if client_stream is None:
            return
        client_stream.set_close_callback(self.on_connection_close)
        await self._receive(answer)
        if not answer.is_switched or self._stream is None:
            return
        client_stream.set_close_callback(None)
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


class ForwardedResponse(HTTPMessageDelegate):
    """Receives the response of a sandbox's server and sends each piece on to the client."""

    def __init__(self, forward: ForwardedRequest, upstream: HTTP1Connection) -> None:
        self._forward = forward
        self._client = forward.client
        self._upstream = upstream
        self._status = 0
        self._usage: CodeUsageMeter | None = None
        self.is_begun = False
        self.is_finished = False
        self.is_switched = False
        self.is_open_ended = False
        """The response ends only when the sandbox's server closes its connection."""

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        line = cast("ResponseStartLine", start_line)
        if line.code < 200 and not (
            line.code == 101 and _is_upgrade(self._forward.request.headers)
        ):
            return  # an answer follows, also a 101 that nobody asked for
        headers = headers.copy()  # tornado reads the body by its own
        self._status = line.code
        if line.code == 101:
            self.is_switched = True
            self._upstream.detach()
        else:
            self.is_open_ended = self._has_no_end(line.code, headers)
            if self.is_open_ended:  # tornado would buffer the whole of such a body
                self._upstream.detach()
            for name in (*_HOP_BY_HOP, "Transfer-Encoding", "Connection"):
                headers.pop(name, None)
            self._announce_usage(line, headers)
            if _is_upgrade(self._forward.request.headers):
                # The answer comes while the request is still read, and tornado closes after it.
                headers["Connection"] = "close"
        self.is_begun = True
        await self._send(self._client.write_headers(line, headers))

    def _announce_usage(self, line: ResponseStartLine, headers: HTTPHeaders) -> None:
        """Say whether the last line of the answer is the engine's; a sandbox cannot say so."""
        if self._forward.route.port != INTERPRETER_PORT:
            return
        headers.pop(USAGE_HEADER, None)
        usage = self._forward.usage
        if usage is not None and usage.fits(line, headers):
            self._usage = usage
            headers[USAGE_HEADER] = "1"

    def _has_no_end(self, status: int, headers: HTTPHeaders) -> bool:
        if status in (204, 304) or self._forward.request.method == "HEAD":
            return False
        return "Content-Length" not in headers and "Transfer-Encoding" not in headers

    async def pass_until_close(self, stream: IOStream) -> None:
        """Pass on a response that ends only with its connection."""
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
        if self._usage is None:
            self._finish_client()
        else:
            self._forward.service.tasks.spawn(self._finish_with_usage(self._usage))

    def _finish_client(self) -> None:
        if self._client.stream is not None and not self._client.stream.closed():
            self._client.finish()
        self._forward.note(self._status)

    async def _finish_with_usage(self, usage: CodeUsageMeter) -> None:
        try:
            line = await usage.line()
            if self._client.stream is not None and not self._client.stream.closed():
                await self._send(self._client.write(line))
        finally:
            self._finish_client()

    def on_connection_close(self) -> None:
        """The server closed early; ``ForwardedRequest`` sees that this is not finished."""

    async def _send(self, write: asyncio.Future[None]) -> None:
        try:
            await write
        except StreamClosedError:
            self._forward.close()


def _is_upgrade(headers: HTTPHeaders) -> bool:
    tokens = headers.get("Connection", "").lower().split(",")
    if headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers:
        return False  # a request with a body is never treated as an upgrade
    return "Upgrade" in headers and any(token.strip() == "upgrade" for token in tokens)


async def join(client: IOStream, stream: IOStream, counters: Counters) -> None:
    """Copy both ways until either side closes, which is not an error."""
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
            _acknowledge(source)
            counters.sent_bytes += len(chunk)
            await destination.write(chunk)
    except StreamClosedError:
        return


def _acknowledge(stream: IOStream) -> None:
    """Tell the sender at once that its bytes have arrived.

    A program that sends a head and then a body waits with the body for that, unless it has switched
    Nagle's algorithm off: 40 ms for each answer on a connection that is kept.
    """
    sock = stream.socket
    if sock is not None and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
