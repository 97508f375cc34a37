"""Finds the sandbox behind a route and opens its ports (interface 2.4 and 2.5)."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Final

from tornado.iostream import IOStream, StreamClosedError

from sbx_jupyter.engine.sandboxes.wake import WakeCredential
from sbx_jupyter.errors import NotFoundError, SbxError, UnavailableError
from sbx_jupyter.protocol import access
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT, RUNTIME_PORT
from sbx_jupyter.service.gateway import refusals

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.state.rows import SandboxRow
    from sbx_jupyter.protocol.access import Route
    from sbx_jupyter.service.context import RoutedRequest, Service

_log = logging.getLogger(__name__)

_CHUNK: Final = 256 * 1024
_BUFFER: Final = 4 * 1024 * 1024


class Refused(Exception):
    """The gateway answers itself."""

    def __init__(self, refusal: refusals.Refusal) -> None:
        super().__init__(refusal.status)
        self.refusal = refusal


async def find_live(service: Service, request: RoutedRequest, route: Route) -> Sandbox:
    """The running sandbox of a route, resumed if it may be; raises ``Refused``."""
    try:
        return await service.engine.live(route.sandbox_id, wake=_credential(request, route))
    except SbxError as error:
        if not isinstance(error, NotFoundError):
            _log.info("a sandbox is not available: %s", error.message)
        raise Refused(refusals.refuse_error(error, route)) from None


def _credential(request: RoutedRequest, route: Route) -> WakeCredential:
    """What a request shows for itself to wake a paused sandbox (interface 9.4)."""
    return WakeCredential(
        port=route.port,
        access_token=request.headers.get(access.ACCESS_TOKEN_HEADER),
        traffic_token=request.headers.get(access.TRAFFIC_TOKEN_HEADER),
    )


async def open_port(
    service: Service, request: RoutedRequest, route: Route
) -> tuple[IOStream, SandboxRow]:
    """A connection to a user's port; raises ``Refused``."""
    row = _row(service, route)
    _check_traffic_token(request, route, row)
    sandbox = await find_live(service, request, route)
    try:
        stream = await _connect(sandbox, route.port)
        if route.port in ((row.network and row.network.https_ports) or ()):
            stream = await _start_tls(stream)
    except UnavailableError:
        if sandbox.closed.is_set():
            raise Refused(refusals.refuse(502, route, refusals.NOT_FOUND)) from None
        raise Refused(refusals.refuse(502, route, refusals.CLOSED_PORT, port=route.port)) from None
    return stream, row


def masked_host(row: SandboxRow, port: int) -> str | None:
    """The ``Host`` that services of a sandbox are to see, if it has a choice of its own."""
    if row.network is None or row.network.mask_request_host is None:
        return None
    return row.network.mask_request_host.replace("${PORT}", str(port))


def _row(service: Service, route: Route) -> SandboxRow:
    try:
        return service.engine.get(route.sandbox_id)
    except SbxError as error:
        raise Refused(refusals.refuse_error(error, route)) from None


def _check_traffic_token(request: RoutedRequest, route: Route, row: SandboxRow) -> None:
    if row.traffic_token is None or route.port == RUNTIME_PORT:
        return
    given = request.headers.get(access.TRAFFIC_TOKEN_HEADER)
    if not given:
        raise Refused(refusals.refuse(403, route, refusals.NO_TRAFFIC_TOKEN))
    if not access.matches(given, row.traffic_token):
        raise Refused(refusals.refuse(403, route, refusals.WRONG_TRAFFIC_TOKEN))


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
    """Speak TLS with the service inside; its certificate means nothing to us (interface 8.1)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return await stream.start_tls(False, context)
    except (OSError, StreamClosedError):
        stream.close()
        raise UnavailableError("the port does not speak TLS") from None
