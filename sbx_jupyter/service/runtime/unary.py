"""Answers the most frequent calls, those of terminals and panels, without a tornado handler."""

from __future__ import annotations

import asyncio
import logging
from http.client import responses
from typing import TYPE_CHECKING

from tornado.httputil import ResponseStartLine

from sbx_jupyter.errors import DeadlineExceededError, InternalError, SbxError
from sbx_jupyter.protocol import connect, messages, requests
from sbx_jupyter.service.log_format import note_request
from sbx_jupyter.service.runtime.connect import Call, Method, Unary, note_call
from sbx_jupyter.service.runtime.direct_call import OK, DirectCall, usable_sandbox
from sbx_jupyter.service.runtime.framing import UNARY_JSON, connect_timeout
from sbx_jupyter.service.runtime.runtime_handler import basic_user

if TYPE_CHECKING:
    from sbx_jupyter.service.context import RoutedRequest, Service

_log = logging.getLogger(__name__)


class UnaryCall(DirectCall):
    """One unary call in JSON, with a valid token, to a running sandbox."""

    _method: Unary

    @classmethod
    def of(
        cls, service: Service, request: RoutedRequest, methods: dict[str, Method]
    ) -> UnaryCall | None:
        """The call that a request makes; ``None`` if ``RpcHandler`` has to answer it."""
        method = methods.get(request.path[1:])
        if not isinstance(method, Unary):
            return None
        sandbox = usable_sandbox(
            service, request, UNARY_JSON.content_type, UNARY_JSON.coding_header
        )
        return None if sandbox is None else cls(service, request, method, sandbox)

    def finish(self) -> None:
        self._service.tasks.spawn(self._answer())

    async def _answer(self) -> None:
        try:
            status, body = OK, messages.encode(await self._run())
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
        connection = self._connection
        if connection.stream is None or connection.stream.closed():
            return  # the client disconnected
        headers = self._make_headers(connect.UNARY_CONTENT_TYPE)
        headers["Content-Length"] = str(len(body))
        line = ResponseStartLine("HTTP/1.1", status, responses.get(status, "Unknown"))
        connection.write_headers(line, headers, body)
        connection.finish()


def _failure(error: SbxError) -> tuple[int, bytes]:
    return connect.HTTP_STATUS.get(error.code, 500), messages.encode(connect.error_to_json(error))
