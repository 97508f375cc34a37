"""Answers the most frequent calls, those of terminals and panels, without a tornado handler.

Tornado's handlers take half of the time of a unary JSON call to a running sandbox. A call with a
valid token and a body of known size needs nothing of them, so it is answered here; all others go to
``RpcHandler``, which also sends the errors.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from email.utils import formatdate
from http.client import responses
from typing import TYPE_CHECKING, Final, cast

from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine

from sbx_jupyter.errors import DeadlineExceededError, InternalError, SbxError
from sbx_jupyter.protocol import connect, messages, requests
from sbx_jupyter.service.log_format import note_request
from sbx_jupyter.service.runtime.connect import Call, Method, Unary, note_call
from sbx_jupyter.service.runtime.framing import connect_timeout
from sbx_jupyter.service.runtime.runtime_handler import EXPOSED_HEADERS, basic_user
from sbx_jupyter.service.sandbox_access import check_token

if TYPE_CHECKING:
    from tornado.http1connection import HTTP1Connection

    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.service.context import RoutedRequest, Service

_log = logging.getLogger(__name__)

_OK: Final = 200


class UnaryCall(HTTPMessageDelegate):
    """One unary call in JSON, with a valid token, to a running sandbox."""

    def __init__(
        self, service: Service, request: RoutedRequest, method: Unary, sandbox: Sandbox
    ) -> None:
        self._service = service
        self._request = request
        self._method = method
        self._sandbox = sandbox
        self._started = time.monotonic()
        self._body = bytearray()  # grows in place: a body may come in a thousand pieces

    @classmethod
    def of(
        cls, service: Service, request: RoutedRequest, methods: dict[str, Method]
    ) -> UnaryCall | None:
        """The call that a request makes; ``None`` if ``RpcHandler`` has to answer it."""
        method = methods.get(request.path[1:])
        headers, route = request.headers, request.route
        if not isinstance(method, Unary) or request.method != "POST" or route is None:
            return None
        if headers.get("Content-Type") != connect.UNARY_CONTENT_TYPE:
            return None
        if "Content-Encoding" in headers or not _is_short(headers.get("Content-Length")):
            return None
        try:
            sandbox = service.engine.sandboxes.find_live(route.sandbox_id)
            check_token(request, service.engine.sandboxes.access_token(route.sandbox_id))
        except SbxError:
            return None
        if sandbox is None:
            return None
        return cls(service, request, method, sandbox)

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        return None

    def data_received(self, chunk: bytes) -> None:
        self._service.counters.received_bytes += len(chunk)
        self._body += chunk

    def finish(self) -> None:
        self._service.tasks.spawn(self._answer())

    async def _answer(self) -> None:
        try:
            status, body = _OK, messages.encode(await self._run())
        except SbxError as error:
            status, body = _failure(error)
        except Exception:  # a bug; the client gets a response all the same
            _log.exception("a call failed")
            status, body = _failure(InternalError("internal error"))
        self._write(status, body)
        note_request(self._service, self._request, "rpc", status, self._started)

    async def _run(self) -> messages.Message:
        headers = self._request.headers
        request = requests.decode(self._method.request, bytes(self._body))
        call = Call(
            sandbox=self._sandbox,
            user=basic_user(headers.get("Authorization")),
            timeout=connect_timeout(headers),
        )
        note_call(self._service, self._request, self._method, request)
        if call.timeout is None:
            return await self._method.run(call, request)
        try:
            async with asyncio.timeout(call.timeout):
                return await self._method.run(call, request)
        except TimeoutError:
            raise DeadlineExceededError("the call took longer than Connect-Timeout-Ms") from None

    def _write(self, status: int, body: bytes) -> None:
        connection = cast("HTTP1Connection", self._request.connection)
        if connection.stream is None or connection.stream.closed():
            return  # the client disconnected
        headers = HTTPHeaders()
        headers["Content-Type"] = connect.UNARY_CONTENT_TYPE
        headers["Date"] = _date(int(time.time()))
        headers["Access-Control-Allow-Origin"] = self._service.settings.allow_origin
        headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Content-Length"] = str(len(body))
        line = ResponseStartLine("HTTP/1.1", status, responses.get(status, "Unknown"))
        connection.write_headers(line, headers, body)
        connection.finish()


def _is_short(length: str | None) -> bool:
    if length is None or not (length.isascii() and length.isdigit()) or len(length) > 18:
        return False
    return int(length) <= connect.MAX_MESSAGE_SIZE


def _failure(error: SbxError) -> tuple[int, bytes]:
    return connect.HTTP_STATUS.get(error.code, 500), messages.encode(connect.error_to_json(error))


@functools.lru_cache(maxsize=2)
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)
