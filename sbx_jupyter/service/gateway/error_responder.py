"""Answers a request with an error response, whatever body it has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, cast

from tornado.httputil import HTTPMessageDelegate

from sbx_jupyter.service.gateway.raw_response import send_error_response
from sbx_jupyter.service.log_format import note_request

if TYPE_CHECKING:
    from tornado.http1connection import HTTP1Connection
    from tornado.httputil import HTTPHeaders, RequestStartLine, ResponseStartLine

    from sbx_jupyter.service.context import RoutedRequest, Service
    from sbx_jupyter.service.gateway.error_responses import ErrorResponse

_MAX_DISCARDED_BYTES: Final = 1024 * 1024


class ErrorResponder(HTTPMessageDelegate):
    """Discards the body, and answers at its end or after 1 MiB of it.

    ``started`` is when the request arrived (``time.monotonic()``), by default now.
    """

    def __init__(
        self,
        service: Service,
        request: RoutedRequest,
        response: ErrorResponse,
        started: float | None = None,
    ) -> None:
        self._service = service
        self._request = request
        self._response = response
        self._started = time.monotonic() if started is None else started
        self._discarded_bytes = 0
        self._is_answered = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        return None

    def data_received(self, chunk: bytes) -> None:
        self._discarded_bytes += len(chunk)
        if self._discarded_bytes > _MAX_DISCARDED_BYTES:
            self.finish()

    def finish(self) -> None:
        """Send the response, once, unless the client disconnected."""
        connection = cast("HTTP1Connection", self._request.connection)
        if self._is_answered or connection.stream is None or connection.stream.closed():
            return
        self._is_answered = True
        send_error_response(connection, self._request, self._response)
        note_request(self._service, self._request, "gateway", self._response.status, self._started)
