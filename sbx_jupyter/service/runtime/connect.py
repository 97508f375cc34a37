"""Serves Connect RPCs: unary calls, server streams and client streams (interface 3.1)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tornado.iostream import StreamClosedError

from sbx_jupyter.engine.live.subscriptions import DisconnectedError
from sbx_jupyter.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.protocol import connect, messages
from sbx_jupyter.protocol.runtime import Empty
from sbx_jupyter.service.answers import JSON, HttpError
from sbx_jupyter.service.gateway.error_responses import GatewayError
from sbx_jupyter.service.runtime.codecs import JSON_CODEC, Codec
from sbx_jupyter.service.runtime.compression import decompress_message, is_compressed
from sbx_jupyter.service.runtime.framing import UNARY_JSON, content_types, find_framing
from sbx_jupyter.service.runtime.runtime_handler import RuntimeHandler, basic_user
from sbx_jupyter.service.runtime.streams import StreamWriter, keepalive_of
from sbx_jupyter.service.sandbox_access import TokenError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.service.context import RoutedRequest, Service

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unary:
    """A method with one request and one response."""

    request: type[Any]
    run: Callable[[Call, Any], Awaitable[Any]]
    audit: Callable[[Any], tuple[str, str]] | None = None
    """The action and its object for the audit log, by the request; ``None`` for no entry."""


@dataclass(frozen=True, slots=True)
class ServerStream:
    """A method that answers with a stream."""

    request: type[Any]
    run: Callable[[StreamCall, Any], Awaitable[None]]
    audit: Callable[[Any], tuple[str, str]] | None = None
    """Like ``audit`` of ``Unary``."""


@dataclass(frozen=True, slots=True)
class ClientStream:
    """A method that receives a stream; ``run`` returns the function for each message."""

    request: type[Any]
    run: Callable[[Call], Callable[[Any], Awaitable[None]]]


Method = Unary | ServerStream | ClientStream


def note_call(
    service: Service, routed: RoutedRequest, method: Unary | ServerStream, request: Any
) -> None:
    """Write a call to the audit log if it belongs there."""
    if method.audit is not None:
        service.note_runtime_call(routed, *method.audit(request))


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

    def send_last(self, message: Any) -> None:
        """Send the last message, once the method returns, in one piece with the stream's end."""
        self.writer.send_last(self.codec.encode(message))


class StreamAnswer(Protocol):
    """The answer to a server stream, as far as its end is concerned."""

    async def end_stream(self, error: SbxError | None) -> None:
        """Send the last envelope."""
        ...

    async def lose_sandbox(self) -> None:
        """End it because the sandbox has ended."""
        ...

    def break_off(self) -> None:
        """Reset the connection, so that the client cannot take what was sent for all."""
        ...


async def run_stream(
    answer: StreamAnswer, sandbox: Sandbox, run: Callable[[], Awaitable[None]]
) -> None:
    """Run the method of a server stream and end its answer."""
    try:
        await run()
    except StreamClosedError:
        return
    except SbxError as error:
        is_gone = isinstance(error, UnavailableError) and sandbox.closed.is_set()
        if is_gone or isinstance(error, DisconnectedError):
            await answer.lose_sandbox()
            return
        await answer.end_stream(error)
    except asyncio.CancelledError:
        answer.break_off()
        raise
    except Exception:
        # A bug. The headers may be sent already, so that the status cannot be changed; a client
        # needs the last envelope to see that the stream has ended.
        _log.exception("a stream failed")
        await answer.end_stream(InternalError("internal error"))
    else:
        await answer.end_stream(None)


class RpcHandler(RuntimeHandler):
    """``/<package>.<Service>/<Method>``."""

    surface = "rpc"
    max_body_size: ClassVar[int] = connect.MAX_MESSAGE_SIZE + connect.HEADER_SIZE

    def initialize(self, methods: dict[str, Method] | None = None) -> None:
        super().initialize()
        self._table = methods or {}
        self._method: Method | None = None
        self._framing = UNARY_JSON
        self._is_compressed = False
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
        await self._framing.codec.prepare()
        if isinstance(self._method, ClientStream):
            self._take = self._method.run(self._make_call())

    def _check_content(self) -> None:
        given = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        framing = find_framing(given, is_stream=self.is_stream)
        if framing is None:
            offered = content_types(is_stream=self.is_stream)
            self.set_header("Accept-Post", offered)
            raise HttpError(415, f"the content type must be one of {offered}")
        self._framing = framing
        self._is_compressed = is_compressed(self.request.headers.get(framing.coding_header, ""))
        self._decoder.takes_compressed = self._is_compressed

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
            timeout=self._framing.timeout_of(headers),
            codec=self._framing.codec,
        )

    # The request's body.

    async def receive(self, chunk: bytes) -> None:
        if self._take is None:
            await super().receive(chunk)
            return
        assert isinstance(self._method, ClientStream)
        for flags, payload in self._decoder.feed(chunk):
            if not flags & connect.END_STREAM_FLAG:
                message = await self._decompress(flags, payload)
                await self._take(self._framing.codec.decode(self._method.request, message))

    async def post(self, name: str) -> None:
        if self.is_rejected:
            self.finish()
        elif isinstance(self._method, Unary):
            await self._answer_unary(self._method)
        elif isinstance(self._method, ClientStream):
            self._decoder.finish()
            self._finish_whole(self._framing.codec.encode(Empty()))
        elif isinstance(self._method, ServerStream):
            await self._answer_stream(self._method)

    async def _answer_unary(self, method: Unary) -> None:
        request = self._framing.codec.decode(method.request, await self._read_message())
        call = self._make_call()
        note_call(self.service, self.routed, method, request)
        self.body = bytearray()
        try:
            async with asyncio.timeout(call.timeout):
                response = await method.run(call, request)
        except TimeoutError:
            raise DeadlineExceededError("the call took longer than Connect-Timeout-Ms") from None
        self._finish_whole(self._framing.codec.encode(response))

    def _finish_whole(self, message: bytes) -> None:
        """End the request with its only message."""
        framing, body = self._framing, message
        if framing.is_enveloped:
            body = connect.encode_envelope(message) + framing.end_of_stream(None)
        self.set_header("Content-Type", framing.content_type)
        self.set_header("Content-Length", len(body))
        self.finish(body)

    # Server streams.

    async def _answer_stream(self, method: ServerStream) -> None:
        codec = self._framing.codec
        request = codec.decode(method.request, await self._read_message())
        self.body = bytearray()
        call = self._make_call()
        replay = self.request.headers.get("Sbx-Replay-From")
        if replay is not None and (not replay.isascii() or not replay.isdigit()):
            raise InvalidArgumentError("Sbx-Replay-From must be a whole number")
        if replay is not None and not codec.can_number:
            raise InvalidArgumentError("Sbx-Replay-From needs the JSON codec")
        interval = keepalive_of(self.request.headers)
        self._writer = StreamWriter(self.http1, self.service.counters, self._begin_stream, interval)
        stream = StreamCall(
            sandbox=call.sandbox,
            user=call.user,
            timeout=call.timeout,
            codec=call.codec,
            replay_from=None if replay is None else int(replay[:18]),
            writer=self._writer,
        )
        note_call(self.service, self.routed, method, request)
        self.service.counters.open_streams += 1
        work = run_stream(self, self.sandbox, partial(method.run, stream, request))
        self._task = self.service.tasks.spawn(work)
        try:
            await asyncio.wait((self._task,))
        finally:
            self.service.counters.open_streams -= 1
            self._writer.close()

    async def _read_message(self) -> bytes:
        """The only message of the request; raises ``InvalidArgumentError``."""
        if not self._framing.is_enveloped:
            flags = connect.COMPRESSED_FLAG if self._is_compressed else connect.MESSAGE_FLAG
            return await self._decompress(flags, bytes(self.body))
        return await self._decompress(*connect.only_message(self._decoder, bytes(self.body)))

    async def _decompress(self, flags: int, payload: bytes) -> bytes:
        return await decompress_message(payload) if flags & connect.COMPRESSED_FLAG else payload

    async def _begin_stream(self, envelope: bytes) -> None:
        self.set_header("Content-Type", self._framing.content_type)
        self.write(envelope)
        await self.flush()

    async def lose_sandbox(self) -> None:
        """The sandbox ended during the stream: reset the connection if headers were sent (G1)."""
        if self._headers_written:
            self.break_off()
        else:
            self.fail(UnavailableError("The sandbox was not found"))

    async def end_stream(self, error: SbxError | None) -> None:
        assert self._writer is not None
        with contextlib.suppress(StreamClosedError):
            await self._writer.send_raw(self._framing.end_of_stream(error))
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
        if self._framing.is_enveloped:
            self.set_status(200)
            self.set_header("Content-Type", self._framing.content_type)
            return self._framing.end_of_stream(error)
        self.set_status(connect.HTTP_STATUS.get(error.code, 500))
        self.set_header("Content-Type", JSON)
        return messages.encode(connect.error_to_json(error))

    def _http_failure(self, error: HttpError) -> bytes:
        code = {404: "unimplemented", 413: "resource_exhausted"}.get(error.status, "unknown")
        self.set_status(error.status)
        self.set_header("Content-Type", JSON)
        return messages.encode({"code": code, "message": error.message})
