"""The front door: every request is looked at once and handed to whom it is for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import unquote

from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    RequestStartLine,
    ResponseStartLine,
)

from sbx_jupyter.protocol.access import Route
from sbx_jupyter.protocol.runtime import RUNTIME_PORT
from sbx_jupyter.service.context import RoutedRequest
from sbx_jupyter.service.gateway import refusals
from sbx_jupyter.service.gateway.forward import Forward
from sbx_jupyter.service.gateway.raw_response import send_refusal
from sbx_jupyter.service.gateway.routing import RoutingError, find_route, needs_sandbox
from sbx_jupyter.service.log_format import new_request_id, note_request
from sbx_jupyter.service.runtime.routes import METHODS
from sbx_jupyter.service.runtime.signatures import Signature
from sbx_jupyter.service.runtime.unary import UnaryCall

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tornado.http1connection import HTTP1Connection
    from tornado.httputil import HTTPConnection

    from sbx_jupyter.service.context import SbxApplication, Service


_PATIENCE_BYTES: Final = 1024 * 1024
UPLOAD_PATH: Final = "/template-uploads/"


class FrontDoor(HTTPServerConnectionDelegate):
    """Tells platform API, runtime API and ports of sandboxes apart, request by request."""

    def __init__(self, service: Service, platform: SbxApplication, runtime: SbxApplication) -> None:
        self.service = service
        self.platform = platform
        self.runtime = runtime

    def start_request(
        self, server_conn: object, request_conn: HTTPConnection
    ) -> HTTPMessageDelegate:
        return _Visit(self, server_conn, request_conn)

    def choose(self, request: RoutedRequest) -> HTTPMessageDelegate:
        """Who answers a request."""
        try:
            route = find_route(request.headers)
        except RoutingError as error:
            if request.path.startswith(UPLOAD_PATH):
                # A signed link of ours under the engine's own name; it carries no key to tell by.
                return self.platform.find_handler(request)
            return Refuser(self.service, request, refusals.refuse_text(error))
        if route is None and request.path == "/files":
            route = self._by_signature(request)
        if route is None:
            if needs_sandbox(request.path):
                refusal = refusals.Refusal(400, text="Invalid host")
                return Refuser(self.service, request, refusal)
            return self.platform.find_handler(request)
        request.route = route
        if route.port != RUNTIME_PORT:
            return Forward(self.service, request, route)
        if (call := UnaryCall.of(self.service, request, METHODS)) is not None:
            return call
        if unquote(request.path).rstrip("/") in refusals.INTERNAL_PATHS:
            refusal = refusals.refuse_internal(request.path)
            return Refuser(self.service, request, refusal)
        return self.runtime.find_handler(request)

    def _by_signature(self, request: RoutedRequest) -> Route | None:
        """The sandbox whose token made the signature of a bare file URL."""
        signature = Signature.of(request)
        if signature is None:
            return None
        sandbox_id = self.service.engine.find_by_signature(signature.is_made_with)
        if sandbox_id is None:
            return None
        request.by_signature = True
        return Route(sandbox_id, RUNTIME_PORT)


class _Visit(HTTPMessageDelegate):
    """One request on one connection."""

    def __init__(self, door: FrontDoor, server_conn: object, request_conn: HTTPConnection) -> None:
        self._door = door
        self._server_conn = server_conn
        self._request_conn = request_conn
        self._target: HTTPMessageDelegate | None = None

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        request = RoutedRequest(
            connection=self._request_conn,
            server_connection=self._server_conn,
            start_line=cast("RequestStartLine", start_line),
            headers=headers,
        )
        request.request_id = new_request_id()
        # tornado switches Nagle's algorithm back on after each answer; with it, the second small
        # piece of a stream would wait for the client's delayed acknowledgement of the first.
        stream = cast("HTTP1Connection", self._request_conn).stream
        if stream is not None:
            stream.set_nodelay(True)
        self._target = self._door.choose(request)
        return self._target.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        assert self._target is not None
        return self._target.data_received(chunk)

    def finish(self) -> None:
        assert self._target is not None
        self._target.finish()

    def on_connection_close(self) -> None:
        if self._target is not None:
            self._target.on_connection_close()


class Refuser(HTTPMessageDelegate):
    """Answers with a refusal, as soon as the body has ended or has become too long to wait for."""

    def __init__(self, service: Service, request: RoutedRequest, refusal: refusals.Refusal) -> None:
        self._service = service
        self._request = request
        self._refusal = refusal
        self._started = time.monotonic()
        self._received = 0
        self._is_answered = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        return None

    def data_received(self, chunk: bytes) -> None:
        self._received += len(chunk)
        if self._received > _PATIENCE_BYTES:
            self.finish()

    def finish(self) -> None:
        if self._is_answered:
            return
        self._is_answered = True
        send_refusal(
            cast("HTTP1Connection", self._request.connection), self._request, self._refusal
        )
        note_request(self._service, self._request, "gateway", self._refusal.status, self._started)
