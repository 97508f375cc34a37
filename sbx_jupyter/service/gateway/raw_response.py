"""Writes to a connection without a tornado handler: whole error responses, unawaited writes."""

from __future__ import annotations

import contextlib
from http import HTTPStatus
from typing import TYPE_CHECKING

from tornado.httputil import HTTPHeaders, ResponseStartLine
from tornado.iostream import StreamClosedError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tornado.http1connection import HTTP1Connection

    from sbx_jupyter.service.context import RoutedRequest, Service
    from sbx_jupyter.service.gateway.error_responses import ErrorResponse


def finish_write(service: Service, write: Awaitable[None]) -> None:
    """Await ``write`` in a background task; a client that disconnected is not an error."""

    async def wait() -> None:
        with contextlib.suppress(StreamClosedError):
            await write

    service.tasks.spawn(wait())


def send_error_response(
    connection: HTTP1Connection, request: RoutedRequest, response: ErrorResponse
) -> None:
    """Write a complete error response and end the request."""
    content_type, body = response.render(request.headers)
    headers = HTTPHeaders()
    headers["Content-Type"] = content_type
    headers["Content-Length"] = str(len(body))
    headers["Access-Control-Allow-Origin"] = "*"
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Cache-Control"] = "no-store"
    line = ResponseStartLine("HTTP/1.1", response.status, HTTPStatus(response.status).phrase)
    connection.write_headers(line, headers, b"" if request.method == "HEAD" else body)
    connection.finish()
