"""The base of calls that are answered without a tornado handler.

Tornado's handlers take half of the time of a short call to a running sandbox. A call in JSON with a
valid token and a body of known size needs nothing of them; all others go to ``RpcHandler``, which
also sends the errors of those that are refused.
"""

from __future__ import annotations

import functools
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final, cast

from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine

from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol import connect
from sbx_jupyter.service.runtime.runtime_handler import EXPOSED_HEADERS
from sbx_jupyter.service.sandbox_access import check_token

if TYPE_CHECKING:
    from tornado.http1connection import HTTP1Connection

    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.service.context import RoutedRequest, Service

OK: Final = 200


class DirectCall(HTTPMessageDelegate):
    """One call with a valid token to a running sandbox, which collects the request's body."""

    def __init__(
        self, service: Service, request: RoutedRequest, method: Any, sandbox: Sandbox
    ) -> None:
        self._service = service
        self._request = request
        self._method = method
        self._sandbox = sandbox
        self._started = time.monotonic()
        self._body = bytearray()  # grows in place: a body may come in a thousand pieces

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        return None

    def data_received(self, chunk: bytes) -> None:
        self._service.counters.received_bytes += len(chunk)
        self._body += chunk

    @property
    def _connection(self) -> HTTP1Connection:
        return cast("HTTP1Connection", self._request.connection)

    def _make_headers(self, content_type: str) -> HTTPHeaders:
        """The headers that each answer has."""
        headers = HTTPHeaders()
        headers["Content-Type"] = content_type
        headers["Date"] = _date(int(time.time()))
        headers["Access-Control-Allow-Origin"] = self._service.settings.allow_origin
        headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
        headers["X-Content-Type-Options"] = "nosniff"
        return headers


def usable_sandbox(
    service: Service, request: RoutedRequest, content_type: str, coding_header: str
) -> Sandbox | None:
    """The running sandbox that a plain request has the token of; ``None`` for any other request.

    Plain is a POST of one body of known size in ``content_type``, without a compression.
    """
    headers, route = request.headers, request.route
    if request.method != "POST" or route is None or headers.get("Content-Type") != content_type:
        return None
    if coding_header in headers or not _is_short(headers.get("Content-Length")):
        return None
    try:
        sandbox = service.engine.sandboxes.find_live(route.sandbox_id)
        check_token(request, service.engine.sandboxes.access_token(route.sandbox_id))
    except SbxError:
        return None
    return sandbox


def _is_short(length: str | None) -> bool:
    if length is None or not (length.isascii() and length.isdigit()) or len(length) > 18:
        return False
    return int(length) <= connect.MAX_MESSAGE_SIZE


@functools.lru_cache(maxsize=2)
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)
