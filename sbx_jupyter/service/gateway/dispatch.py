"""Dispatches each request: to the platform API, to a sandbox's runtime API or to its ports."""

from __future__ import annotations

import re
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
from sbx_jupyter.service.gateway.error_responder import ErrorResponder
from sbx_jupyter.service.gateway.error_responses import INTERNAL_PATHS, ErrorResponse
from sbx_jupyter.service.gateway.forward import ForwardedRequest
from sbx_jupyter.service.gateway.port_tunnel import PortTunnel, asks_for_tunnel
from sbx_jupyter.service.gateway.routing import RoutingError, find_route, needs_sandbox
from sbx_jupyter.service.log_format import new_request_id
from sbx_jupyter.service.runtime.direct_stream import DirectStream
from sbx_jupyter.service.runtime.routes import METHODS
from sbx_jupyter.service.runtime.unary import UnaryCall
from sbx_jupyter.service.sandbox_access import Signature

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tornado.http1connection import HTTP1Connection
    from tornado.httputil import HTTPConnection

    from sbx_jupyter.service.context import SbxApplication, Service
    from sbx_jupyter.service.head_timer import HeadTimer

UPLOAD_PATH: Final = "/template-uploads/"
_ABSOLUTE: Final = re.compile(r"https?://([^/?#]+)", re.IGNORECASE)


class Dispatcher(HTTPServerConnectionDelegate):
    """Chooses what handles each request, by its headers alone; bodies are not parsed here."""

    def __init__(
        self,
        service: Service,
        platform: SbxApplication,
        runtime: SbxApplication,
        head_timer: HeadTimer,
    ) -> None:
        self.service = service
        self.platform = platform
        self.runtime = runtime
        self.head_timer = head_timer
        self.requests = 0
        """Number of requests that have arrived."""

    def start_request(
        self, server_conn: object, request_conn: HTTPConnection
    ) -> HTTPMessageDelegate:
        self.requests += 1
        self.head_timer.begin(server_conn, cast("HTTP1Connection", request_conn))
        return _DispatchDelegate(self, server_conn, request_conn)

    def on_close(self, server_conn: object) -> None:
        self.head_timer.end(server_conn)

    def find_delegate(self, request: RoutedRequest) -> HTTPMessageDelegate:
        """The delegate that receives the request and answers it."""
        try:
            route = find_route(request.headers, self.service.settings.domain)
        except RoutingError as error:
            if request.path.startswith(UPLOAD_PATH):
                # A signed upload link: it goes to the engine's own host name without an API key.
                return self.platform.find_handler(request)
            return self._respond(request, ErrorResponse(400, text=error.message))
        # A browser's preflight request names the routing headers, but does not have them.
        is_preflight = request.method == "OPTIONS"
        if route is None and request.path == "/files" and not is_preflight:
            route = self._by_signature(request)
        if route is None:
            if needs_sandbox(request.path) and not is_preflight:
                return self._respond(request, ErrorResponse(400, text="Invalid host"))
            return self.platform.find_handler(request)
        request.route = route
        if route.port != RUNTIME_PORT:
            if asks_for_tunnel(request.headers):
                return PortTunnel(self.service, request, route)
            return ForwardedRequest(self.service, request, route)
        for kind in (UnaryCall, DirectStream):
            if (call := kind.of(self.service, request, METHODS)) is not None:
                return call
        if unquote(request.path).rstrip("/") in INTERNAL_PATHS:
            return self._respond(request, ErrorResponse.for_internal_path(request.path))
        return self.runtime.find_handler(request)

    def _respond(self, request: RoutedRequest, response: ErrorResponse) -> ErrorResponder:
        return ErrorResponder(self.service, request, response)

    def _by_signature(self, request: RoutedRequest) -> Route | None:
        """The route of a signed file URL without a sandbox: whose token made the signature."""
        signature = Signature.of(request)
        if signature is None:
            return None
        sandbox_id = self.service.engine.sandboxes.find_by_signature(signature.is_made_with)
        if sandbox_id is None:
            return None
        request.by_signature = True
        return Route(sandbox_id, RUNTIME_PORT)


class _DispatchDelegate(HTTPMessageDelegate):
    """Passes one request on to the delegate that the dispatcher finds for its headers."""

    def __init__(
        self, dispatcher: Dispatcher, server_conn: object, request_conn: HTTPConnection
    ) -> None:
        self._dispatcher = dispatcher
        self._server_conn = server_conn
        self._request_conn = request_conn
        self._target: HTTPMessageDelegate | None = None
        self._request: RoutedRequest | None = None

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        self._dispatcher.head_timer.end(self._server_conn)
        line = _origin_form(cast("RequestStartLine", start_line), headers)
        request = RoutedRequest(
            connection=self._request_conn,
            server_connection=self._server_conn,
            start_line=line,
            headers=headers,
        )
        request.request_id = new_request_id()
        self._request = request
        # tornado switches Nagle's algorithm back on after each answer; with it, the second small
        # piece of a stream would wait for the client's delayed acknowledgement of the first.
        stream = cast("HTTP1Connection", self._request_conn).stream
        if stream is not None:
            stream.set_nodelay(True)
        self._target = self._dispatcher.find_delegate(request)
        return self._target.headers_received(line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        assert self._target is not None
        return self._target.data_received(chunk)

    def finish(self) -> None:
        assert self._target is not None
        assert self._request is not None
        self._request.has_ended = True
        self._target.finish()
        if self._request.when_ended is not None:
            self._request.when_ended()

    def on_connection_close(self) -> None:
        if self._target is not None:
            self._target.on_connection_close()


def _origin_form(line: RequestStartLine, headers: HTTPHeaders) -> RequestStartLine:
    """The request line without scheme and authority, which proxies send; they become ``Host``."""
    match = _ABSOLUTE.match(line.path)
    if match is None:
        return line
    headers["Host"] = match[1]
    path = line.path[match.end() :]
    return line._replace(path=path if path.startswith("/") else f"/{path}")
