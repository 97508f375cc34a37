"""Writes that nobody waits for, and whole answers written past the handlers."""

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
    from sbx_jupyter.service.gateway.refusals import Refusal


def hold(service: Service, written: Awaitable[None]) -> None:
    """Look at the outcome of a write that nobody waits for; a gone reader is no news."""

    async def wait() -> None:
        with contextlib.suppress(StreamClosedError):
            await written

    service.tasks.spawn(wait())


def send_refusal(connection: HTTP1Connection, request: RoutedRequest, refusal: Refusal) -> None:
    """Write an answer of the gateway itself and end the request."""
    content_type, body = refusal.render(request.headers)
    headers = HTTPHeaders()
    headers["Content-Type"] = content_type
    headers["Content-Length"] = str(len(body))
    headers["Access-Control-Allow-Origin"] = "*"
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Cache-Control"] = "no-store"
    line = ResponseStartLine("HTTP/1.1", refusal.status, HTTPStatus(refusal.status).phrase)
    connection.write_headers(line, headers, b"" if request.method == "HEAD" else body)
    connection.finish()
