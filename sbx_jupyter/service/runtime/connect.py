"""Serves Connect RPCs: unary calls, server streams and client streams (interface 3.1)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from tornado.iostream import StreamClosedError

from sbx_jupyter.engine.live.subscriptions import DisconnectedError
from sbx_jupyter.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    SbxError,
    UnavailableError,
    UnimplementedError,
)
from sbx_jupyter.protocol import connect, messages
from sbx_jupyter.protocol.runtime import Empty
from sbx_jupyter.service.answers import JSON, HttpError
from sbx_jupyter.service.gateway.error_responses import GatewayError
from sbx_jupyter.service.runtime.codecs import JSON_CODEC, Codec, codec_for, content_types
from sbx_jupyter.service.runtime.runtime_handler import RuntimeHandler, basic_user, timeout_of
from sbx_jupyter.service.runtime.streams import StreamWriter, keepalive_of
from sbx_jupyter.service.sandbox_access import TokenError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sbx_jupyter.engine.live.sandbox import Sandbox

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unary:
    """A method with one request and one response."""

    request: type[Any]
    run: Callable[[Call, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ServerStream:
    """A method that answers with a stream."""

    request: type[Any]
    run: Callable[[StreamCall, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ClientStream:
    """A method that receives a stream; ``run`` returns the function for each message."""

    request: type[Any]
    run: Callable[[Call], Callable[[Any], Awaitable[None]]]


Method = Unary | ServerStream | ClientStream


@dataclass(slots=True)
class Call:
    """One call of a method."""

    sandbox: Sandbox
    user: str | None
    timeout: float | None
    codec: Codec = JSON_CODEC
    replay_from: int | None = None


@dataclass(slots=True)
class StreamCall(Call):
    """A call that answers with a stream."""

    writer: StreamWriter = field(kw_only=True)

    async def send(self, message: Any) -> None:
        """Send one message; raises ``StreamClosedError`` when the client has disconnected."""
        await self.writer.send(self.codec.encode(message))


class RpcHandler(RuntimeHandler):
    """``/<package>.<Service>/<Method>``."""

    surface = "rpc"
    max_body_size: ClassVar[int] = connect.MAX_MESSAGE_SIZE + connect.HEADER_SIZE

    def initialize(self, methods: dict[str, Method] | None = None) -> None:
        super().initialize()
        self._table = methods or {}
        self._method: Method | None = None
        self._codec = JSON_CODEC
        self._decoder = connect.EnvelopeDecoder()
        self._take: Callable[[Any], Awaitable[None]] | None = None
        self._writer: StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_stream(self) -> bool:
        return isinstance(self._method, ServerStream | ClientStream)

    # The request's headers.

    async def admit(self) -> None:
        if self.request.method == "OPTIONS":
            return
        self._method = self._table.get(self.path_args[0])
        if self.is_stream:
            self.surface = "stream"
        await super().admit()
        if self._method is None:
            raise HttpError(404, f"no method {self.request.path[:200]}")
        if self.request.method != "POST":
            self.set_header("Allow", "POST")
            raise HttpError(405, "Connect methods are called with POST")
        self._check_content()
        await self._codec.prepare()
        if isinstance(self._method, ClientStream):
            self._take = self._method.run(self._make_call())

    def _check_content(self) -> None:
        given = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        codec = codec_for(given, is_stream=self.is_stream)
        if codec is None:
            offered = content_types(is_stream=self.is_stream)
            self.set_header("Accept-Post", offered)
            raise HttpError(415, f"the content type must be one of {offered}")
        self._codec = codec
        name = "Connect-Content-Encoding" if self.is_stream else "Content-Encoding"
        if self.request.headers.get(name, "identity").lower() not in ("", "identity"):
            raise UnimplementedError("compressed messages are not supported; use identity")

    def check_body_size(self, size: int) -> None:
        if not isinstance(self._method, ClientStream) and size > self.max_body_size:
            raise ResourceExhaustedError(
                f"message is larger than the limit of {connect.MAX_MESSAGE_SIZE} bytes"
            )

    def _make_call(self) -> Call:
        headers = self.request.headers
        return Call(
            sandbox=self.sandbox,
            user=basic_user(headers.get("Authorization")),
            timeout=timeout_of(headers.get("Connect-Timeout-Ms")),
            codec=self._codec,
        )

    # The request's body.

    async def receive(self, chunk: bytes) -> None:
        if self._take is None:
            await super().receive(chunk)
            return
        assert isinstance(self._method, ClientStream)
        for flags, payload in self._decoder.feed(chunk):
            if flags == connect.MESSAGE_FLAG:
                await self._take(self._codec.decode(self._method.request, payload))

    async def post(self, name: str) -> None:
        if self.is_rejected:
            self.finish()
        elif isinstance(self._method, Unary):
            await self._answer_unary(self._method)
        elif isinstance(self._method, ClientStream):
            self._decoder.finish()
            answer = connect.encode_envelope(self._codec.encode(Empty()))
            body = answer + connect.encode_end_of_stream()
            self._finish_whole(self._codec.stream_type, body)
        elif isinstance(self._method, ServerStream):
            await self._answer_stream(self._method)

    async def _answer_unary(self, method: Unary) -> None:
        request = self._codec.decode_body(method.request, bytes(self.body))
        call = self._make_call()
        self.body = bytearray()
        try:
            async with asyncio.timeout(call.timeout):
                response = await method.run(call, request)
        except TimeoutError:
            raise DeadlineExceededError("the call took longer than Connect-Timeout-Ms") from None
        self._finish_whole(self._codec.unary_type, self._codec.encode(response))

    def _finish_whole(self, content_type: str, body: bytes) -> None:
        self.set_header("Content-Type", content_type)
        self.set_header("Content-Length", len(body))
        self.finish(body)

    # Server streams.

    async def _answer_stream(self, method: ServerStream) -> None:
        request = self._codec.decode(method.request, self._only_message())
        self.body = bytearray()
        call = self._make_call()
        replay = self.request.headers.get("Sbx-Replay-From")
        if replay is not None and (not replay.isascii() or not replay.isdigit()):
            raise InvalidArgumentError("Sbx-Replay-From must be a whole number")
        if replay is not None and not self._codec.can_number:
            raise InvalidArgumentError("Sbx-Replay-From needs the JSON codec")
        interval = keepalive_of(self.request.headers)
        self._writer = StreamWriter(self, self._codec.stream_type, interval)
        stream = StreamCall(
            sandbox=call.sandbox,
            user=call.user,
            timeout=call.timeout,
            codec=call.codec,
            replay_from=None if replay is None else int(replay[:18]),
            writer=self._writer,
        )
        self.service.counters.open_streams += 1
        self._task = self.service.tasks.spawn(self._run_stream(method, stream, request))
        try:
            await asyncio.wait((self._task,))
        finally:
            self.service.counters.open_streams -= 1
            self._writer.close()

    def _only_message(self) -> bytes:
        """The one envelope of a server stream's request; raises ``InvalidArgumentError``."""
        found = [
            payload
            for flags, payload in self._decoder.feed(bytes(self.body))
            if flags == connect.MESSAGE_FLAG
        ]
        self._decoder.finish()
        if len(found) != 1:
            raise InvalidArgumentError("the request must be exactly one message")
        return found[0]

    async def _run_stream(self, method: ServerStream, call: StreamCall, request: Any) -> None:
        assert self._writer is not None
        try:
            await method.run(call, request)
        except StreamClosedError:
            return
        except SbxError as error:
            is_gone = isinstance(error, UnavailableError) and self.sandbox.closed.is_set()
            if is_gone or isinstance(error, DisconnectedError):
                self._lose_sandbox()
                return
            await self._end_stream(error)
        except asyncio.CancelledError:
            self.break_off()
            raise
        except Exception:
            # A bug. The headers may be sent already, so that the status cannot be changed; a client
            # needs the last envelope to see that the stream has ended.
            _log.exception("a stream failed")
            await self._end_stream(InternalError("internal error"))
        else:
            await self._end_stream(None)

    def _lose_sandbox(self) -> None:
        """The sandbox ended during the stream: reset the connection if headers were sent (G1)."""
        if self._headers_written:
            self.break_off()
        else:
            self.fail(UnavailableError("The sandbox was not found"))

    async def _end_stream(self, error: SbxError | None) -> None:
        assert self._writer is not None
        with contextlib.suppress(StreamClosedError):
            await self._writer.send_raw(connect.encode_end_of_stream(error))
            self._writer.close()
            self.finish()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._task is not None:
            self._task.cancel()

    # Errors.

    def write_failure(self, error: SbxError) -> bytes:
        if isinstance(error, HttpError):
            return self._http_failure(error)
        if isinstance(error, GatewayError | TokenError):  # of HTTP, for streams too (interface 3.2)
            return super().write_failure(error)
        if self.is_stream:
            self.set_status(200)
            self.set_header("Content-Type", self._codec.stream_type)
            return connect.encode_end_of_stream(error)
        self.set_status(connect.HTTP_STATUS.get(error.code, 500))
        self.set_header("Content-Type", JSON)
        return messages.encode(connect.error_to_json(error))

    def _http_failure(self, error: HttpError) -> bytes:
        code = {404: "unimplemented", 413: "resource_exhausted"}.get(error.status, "unknown")
        self.set_status(error.status)
        self.set_header("Content-Type", JSON)
        return messages.encode({"code": code, "message": error.message})
