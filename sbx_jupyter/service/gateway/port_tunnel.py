"""Joins a client to a port of a sandbox, byte for byte: an addition to the gateway.

A client that sends many requests to one program keeps such a connection and speaks HTTP with the
program itself, so that the engine reads no headers for each of them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, ResponseStartLine
from tornado.iostream import StreamClosedError

from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol import access
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT
from sbx_jupyter.service.gateway.error_responder import ErrorResponder
from sbx_jupyter.service.gateway.error_responses import (
    TOO_MANY_CONNECTIONS,
    ErrorResponse,
    GatewayError,
)
from sbx_jupyter.service.gateway.forward import join
from sbx_jupyter.service.gateway.gateway import masked_host, open_port
from sbx_jupyter.service.log_format import note_request
from sbx_jupyter.service.sandbox_access import UNAUTHORIZED

if TYPE_CHECKING:
    from tornado.http1connection import HTTP1Connection
    from tornado.httputil import RequestStartLine
    from tornado.iostream import IOStream

    from sbx_jupyter.protocol.access import Route
    from sbx_jupyter.service.context import RoutedRequest, Service

NOT_FOR_TUNNELS = "This port has rules for each request, so it cannot be joined as it is"


def asks_for_tunnel(headers: HTTPHeaders) -> bool:
    """Whether a request asks to be joined to the port; browsers cannot send such a header."""
    return headers.get("Upgrade", "") == access.PORT_UPGRADE


class PortTunnel(HTTPMessageDelegate):
    """Answers 101 and joins the connection to the port until either side closes.

    It needs the sandbox's access token where the sandbox has one. A closed port, a sandbox that is
    not there and too many connections are answered as for other requests; 409 says that requests to
    this port have to be forwarded one by one.
    """

    def __init__(self, service: Service, request: RoutedRequest, route: Route) -> None:
        self._service = service
        self._request = request
        self._route = route
        self._client = cast("HTTP1Connection", request.connection)
        self._responder: ErrorResponder | None = None
        self._started = time.monotonic()

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        limit = self._service.settings.max_connections_per_sandbox
        sandbox_id = self._route.sandbox_id
        if not self._service.connections.acquire(sandbox_id, limit):
            self._refuse(429, TOO_MANY_CONNECTIONS, connectionLimit=limit)
            return
        try:
            stream = await self._open()
        except GatewayError as error:
            self._service.connections.release(sandbox_id)
            self._respond(error.response)
            return
        except BaseException:
            self._service.connections.release(sandbox_id)
            raise
        switch = HTTPHeaders({"Connection": "Upgrade", "Upgrade": access.PORT_UPGRADE})
        try:
            await self._client.write_headers(
                ResponseStartLine("HTTP/1.1", 101, "Switching Protocols"), switch
            )
        except StreamClosedError:
            stream.close()
            self._service.connections.release(sandbox_id)
            return
        note_request(self._service, self._request, "port", 101, self._started)
        self._service.tasks.spawn(self._join(self._client.detach(), stream))

    def data_received(self, chunk: bytes) -> None:
        if self._responder is not None:
            self._responder.data_received(chunk)

    def finish(self) -> None:
        if self._responder is not None:
            self._responder.finish()

    def on_connection_close(self) -> None:
        """The client left before it was joined; writing the answer finds that, too."""

    async def _open(self) -> IOStream:
        """Check the request and connect to the port; raises ``GatewayError``."""
        try:
            row = self._service.engine.sandboxes.get(self._route.sandbox_id)
        except SbxError as error:
            raise GatewayError(ErrorResponse.from_error(error, self._route)) from None
        given = self._request.headers.get(access.ACCESS_TOKEN_HEADER)
        if not access.is_granted(given, row.access_token):
            raise GatewayError(ErrorResponse.for_route(401, self._route, UNAUTHORIZED))
        if self._route.port == INTERPRETER_PORT or masked_host(row, self._route.port) is not None:
            raise GatewayError(ErrorResponse.for_route(409, self._route, NOT_FOR_TUNNELS))
        stream, _ = await open_port(self._service, self._request, self._route)
        return stream

    async def _join(self, client: IOStream, stream: IOStream) -> None:
        self._service.counters.open_tunnels += 1
        try:
            await join(client, stream, self._service.counters)
        finally:
            self._service.counters.open_tunnels -= 1
            self._service.connections.release(self._route.sandbox_id)
            client.close()
            stream.close()

    def _refuse(self, status: int, message: str, **details: int) -> None:
        self._respond(ErrorResponse.for_route(status, self._route, message, **details))

    def _respond(self, response: ErrorResponse) -> None:
        self._responder = ErrorResponder(self._service, self._request, response, self._started)
