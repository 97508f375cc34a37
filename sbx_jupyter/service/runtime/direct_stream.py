"""Answers server streams, such as the start of a program, without a tornado handler."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tornado.httputil import ResponseStartLine
from tornado.iostream import StreamClosedError

from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.protocol import access, connect
from sbx_jupyter.service.answers import reset
from sbx_jupyter.service.log_format import note_request
from sbx_jupyter.service.runtime.codecs import JSON_CODEC
from sbx_jupyter.service.runtime.connect import (
    Method,
    ServerStream,
    StreamCall,
    note_call,
    run_stream,
)
from sbx_jupyter.service.runtime.direct_call import OK, DirectCall, usable_sandbox
from sbx_jupyter.service.runtime.framing import STREAM_JSON, connect_timeout
from sbx_jupyter.service.runtime.runtime_handler import basic_user
from sbx_jupyter.service.runtime.streams import StreamWriter, keepalive_of

if TYPE_CHECKING:
    import asyncio

    from sbx_jupyter.service.context import RoutedRequest, Service


class DirectStream(DirectCall):
    """One server stream in JSON, with a valid token, from a running sandbox."""

    _method: ServerStream
    _task: asyncio.Task[None] | None = None
    _writer: StreamWriter

    @classmethod
    def of(
        cls, service: Service, request: RoutedRequest, methods: dict[str, Method]
    ) -> DirectStream | None:
        """The call that a request makes; ``None`` if ``RpcHandler`` has to answer it."""
        method = methods.get(request.path[1:])
        if not isinstance(method, ServerStream) or access.REPLAY_FROM_HEADER in request.headers:
            return None
        sandbox = usable_sandbox(
            service, request, STREAM_JSON.content_type, STREAM_JSON.coding_header
        )
        return None if sandbox is None else cls(service, request, method, sandbox)

    def finish(self) -> None:
        interval = keepalive_of(self._request.headers)
        counters = self._service.counters
        self._writer = StreamWriter(self._connection, counters, self._begin_stream, interval)
        self._task = self._service.tasks.spawn(self._answer())
        self._connection.set_close_callback(self.on_connection_close)

    def on_connection_close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def end_stream(self, error: SbxError | None) -> None:
        """Send the last envelope and end the request."""
        with contextlib.suppress(StreamClosedError):
            await self._writer.send_raw(connect.encode_end_of_stream(error))
            self._connection.finish()

    async def lose_sandbox(self) -> None:
        """The sandbox ended during the stream: reset the connection if headers were sent (G1)."""
        if self._writer.is_begun:
            self.break_off()
        else:
            await self.end_stream(UnavailableError("The sandbox was not found"))

    def break_off(self) -> None:
        """Reset the connection, so that the client cannot take what was sent for all."""
        reset(self._connection.stream)

    async def _answer(self) -> None:
        self._service.counters.open_streams += 1
        try:
            await run_stream(self, self._sandbox, self._run)
        finally:
            self._service.counters.open_streams -= 1
            self._writer.close()
            note_request(self._service, self._request, "stream", OK, self._started)

    async def _run(self) -> None:
        _, message = connect.only_message(connect.EnvelopeDecoder(), bytes(self._body))
        request = JSON_CODEC.decode(self._method.request, message)
        headers = self._request.headers
        call = StreamCall(
            sandbox=self._sandbox,
            user=basic_user(headers.get("Authorization")),
            timeout=connect_timeout(headers),
            writer=self._writer,
        )
        note_call(self._service, self._request, self._method, request)
        await self._method.run(call, request)

    async def _begin_stream(self, envelope: bytes) -> None:
        line = ResponseStartLine("HTTP/1.1", OK, "OK")
        headers = self._make_headers(connect.STREAM_CONTENT_TYPE)
        await self._connection.write_headers(line, headers, envelope)
