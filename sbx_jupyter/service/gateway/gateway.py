"""Finds the sandbox behind a route and opens its ports (interface 2.4 and 2.5)."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Final

from tornado.iostream import IOStream, StreamClosedError

from sbx_jupyter.engine.sandboxes.wake import WakeCredential
from sbx_jupyter.errors import (
    NotFoundError,
    ResourceExhaustedError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.protocol import access
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT
from sbx_jupyter.service.gateway.error_responses import (
    CLOSED_PORT,
    NOT_FOUND,
    ErrorResponse,
    GatewayError,
)
from sbx_jupyter.service.gateway.interpreter_access import check_interpreter_access

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.state.rows import SandboxRow
    from sbx_jupyter.protocol.access import Route
    from sbx_jupyter.service.context import RoutedRequest, Service

_log = logging.getLogger(__name__)

_CHUNK: Final = 256 * 1024
_BUFFER: Final = 4 * 1024 * 1024


async def find_live(service: Service, request: RoutedRequest, route: Route) -> Sandbox:
    """The running sandbox of a route, resumed if that is allowed; raises ``GatewayError``."""
    try:
        return await service.engine.sandboxes.live(
            route.sandbox_id, wake=_credential(request, route)
        )
    except SbxError as error:
        if not isinstance(error, NotFoundError):
            _log.info("a sandbox is not available: %s", error.message)
        raise GatewayError(ErrorResponse.from_error(error, route)) from None


def _credential(request: RoutedRequest, route: Route) -> WakeCredential:
    """The tokens with which a request may resume a paused sandbox (interface 9.4)."""
    return WakeCredential(
        port=route.port,
        access_token=request.headers.get(access.ACCESS_TOKEN_HEADER),
        traffic_token=request.headers.get(access.TRAFFIC_TOKEN_HEADER),
    )


async def open_port(
    service: Service, request: RoutedRequest, route: Route
) -> tuple[IOStream, SandboxRow]:
    """A connection to a user's port; raises ``GatewayError``."""
    row = _check_access(service, request, route)
    sandbox = await find_live(service, request, route)
    try:
        stream = await _connect(sandbox, route.port)
        if route.port in ((row.network and row.network.https_ports) or ()):
            stream = await _start_tls(stream)
    except UnavailableError:
        if sandbox.closed.is_set():
            response = ErrorResponse.for_route(502, route, NOT_FOUND)
        else:
            response = ErrorResponse.for_route(502, route, CLOSED_PORT, port=route.port)
        raise GatewayError(response) from None
    except SbxError as error:
        # Of the agent, which is asked for sockets, or of the start of the interpreter.
        status = 429 if isinstance(error, ResourceExhaustedError) else 502
        raise GatewayError(ErrorResponse.for_route(status, route, error.message)) from None
    return stream, row


def masked_host(row: SandboxRow, port: int) -> str | None:
    """The ``Host`` header that servers in the sandbox get instead of the client's, if set."""
    if row.network is None or row.network.mask_request_host is None:
        return None
    return row.network.mask_request_host.replace("${PORT}", str(port))


def _check_access(service: Service, request: RoutedRequest, route: Route) -> SandboxRow:
    """The row of the sandbox, whose tokens the request carries; raises ``GatewayError``."""
    try:
        row = service.engine.sandboxes.get(route.sandbox_id)
        given = request.headers.get(access.TRAFFIC_TOKEN_HEADER)
        access.check_header(access.TRAFFIC_TOKEN_HEADER, given, row.traffic_token)
    except SbxError as error:
        raise GatewayError(ErrorResponse.from_error(error, route)) from None
    if route.port == INTERPRETER_PORT:
        check_interpreter_access(service.open_calls, request, route, row)
    return row


async def _connect(sandbox: Sandbox, port: int) -> IOStream:
    try:
        sock = await sandbox.connect_port(port)
    except UnavailableError:
        start = getattr(sandbox, "start_interpreter", None)
        if port != INTERPRETER_PORT or start is None:
            raise
        await start()
        sock = await sandbox.connect_port(port)
    stream = IOStream(sock, max_buffer_size=_BUFFER, read_chunk_size=_CHUNK)
    stream.set_nodelay(True)
    return stream


async def _start_tls(stream: IOStream) -> IOStream:
    """Speak TLS with the server inside, without checking its certificate (interface 8.1)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return await stream.start_tls(False, context)
    except (OSError, StreamClosedError):
        stream.close()
        raise UnavailableError("the port does not speak TLS") from None
