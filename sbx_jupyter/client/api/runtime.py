"""The client of the runtime API: Connect unary calls, server streams and client streams."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import msgspec

from sbx_jupyter.client.api.transport import is_local, raise_for_status, translated_errors
from sbx_jupyter.client.cleanup import shielded
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.protocol import access
from sbx_jupyter.protocol.connect import (
    END_STREAM_FLAG,
    STREAM_CONTENT_TYPE,
    UNARY_CONTENT_TYPE,
    EnvelopeDecoder,
    encode_envelope,
    error_from_json,
)
from sbx_jupyter.protocol.messages import Message, decode, encode
from sbx_jupyter.protocol.runtime import RUNTIME_PORT, Empty

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx

    from sbx_jupyter.client.api.transport import Transport

M = TypeVar("M", bound=Message)

KEEPALIVE_INTERVAL: Final = 30
STREAM_SILENCE: Final = 4 * KEEPALIVE_INTERVAL
"""Seconds without data or keepalive after which a stream counts as broken."""


class RuntimeClient:
    """Calls the runtime API of one sandbox, at its address and with its credentials."""

    def __init__(
        self,
        transport: Transport,
        sandbox_id: str,
        *,
        access_token: str | None,
        traffic_token: str | None = None,
        domain: str | None = None,
    ) -> None:
        self.transport = transport
        self.sandbox_id = sandbox_id
        self.access_token = access_token
        self._traffic_token = traffic_token
        self._domain = domain

    def url(self, path: str, port: int = RUNTIME_PORT) -> str:
        """The address of ``path`` on one port of the sandbox."""
        return self.transport.config.runtime_url(self.sandbox_id, port, self._domain) + path

    @property
    def is_local(self) -> bool:
        """Whether the sandbox is reached on this machine."""
        return is_local(self.url("/"))

    def public_url(self, path: str) -> str:
        """The address of a runtime path for callers that send no routing headers."""
        config = self.transport.config
        if config.sandbox_url is not None or (self._domain or config.domain) is None:
            return self.url(path)
        return f"https://{config.port_host(self.sandbox_id, RUNTIME_PORT, self._domain)}{path}"

    def headers(self, user: str | None = None, port: int = RUNTIME_PORT) -> dict[str, str]:
        """The headers for routing and credentials (interface 2.3, 3.3)."""
        headers = {
            access.SANDBOX_ID_HEADER: self.sandbox_id,
            access.SANDBOX_PORT_HEADER: str(port),
        }
        if self.access_token is not None:
            headers[access.ACCESS_TOKEN_HEADER] = self.access_token
        if self._traffic_token is not None:
            headers[access.TRAFFIC_TOKEN_HEADER] = self._traffic_token
        if user is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        return headers

    async def call(
        self,
        method: str,
        request: Message,
        answer: type[M],
        *,
        user: str | None = None,
        timeout: float | None = None,
    ) -> M:
        """Make a unary call; ``method`` is ``<package>.<Service>/<Method>``.

        Raises the error that the sandbox answers with.
        """
        headers = self.headers(user)
        headers |= {"Content-Type": UNARY_CONTENT_TYPE, "Connect-Protocol-Version": "1"}
        headers["Accept-Encoding"] = "identity"
        response = await self.transport.request(
            "POST",
            self.url(f"/{method}"),
            headers=headers,
            content=encode(request),
            timeout=timeout,
        )
        await raise_for_status(response)
        return decode(answer, response.content)

    async def stream(
        self,
        method: str,
        request: Message,
        answer: type[M],
        *,
        user: str | None = None,
        deadline: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> MessageStream[M]:
        """Open a server stream, which the sandbox ends after ``deadline`` seconds.

        ``None`` or 0 means no deadline. Raises the error that the sandbox answers with.
        """
        all_headers = self._stream_headers(user) | dict(headers or {})
        if deadline:
            all_headers["Connect-Timeout-Ms"] = str(max(1, int(deadline * 1000)))
        response = await self.transport.open(
            "POST",
            self.url(f"/{method}"),
            headers=all_headers,
            content=encode_envelope(encode(request)),
            timeout=STREAM_SILENCE,
        )
        await raise_for_status(response)
        return MessageStream(response, answer)

    async def upload(self, method: str, requests: AsyncIterator[Message]) -> None:
        """Send a client stream, and wait for the empty message that answers it."""

        async def body() -> AsyncIterator[bytes]:
            async for request in requests:
                yield encode_envelope(encode(request))

        response = await self.transport.open(
            "POST",
            self.url(f"/{method}"),
            headers=self._stream_headers(None),
            content=body(),
            timeout=STREAM_SILENCE,
        )
        await raise_for_status(response)
        async with MessageStream(response, Empty) as stream:
            async for _ in stream:
                pass

    def _stream_headers(self, user: str | None) -> dict[str, str]:
        return self.headers(user) | {
            "Content-Type": STREAM_CONTENT_TYPE,
            "Connect-Protocol-Version": "1",
            "Accept-Encoding": "identity",
            "Keepalive-Ping-Interval": str(KEEPALIVE_INTERVAL),
        }


class MessageStream(Generic[M]):
    """The messages of one server stream; an async iterator that must be closed.

    Iterating raises the error that ends the stream, and ``UnavailableError`` when the connection
    breaks, as it does when the sandbox is killed.
    """

    def __init__(self, response: httpx.Response, kind: type[M]) -> None:
        self._response = response
        self._chunks = response.aiter_raw()
        self._kind = kind
        self._decoder = EnvelopeDecoder()
        self._ready: list[tuple[int, bytes]] = []
        self._pending: asyncio.Future[bytes | None] | None = None
        self._ended = False

    def __aiter__(self) -> MessageStream[M]:
        return self

    async def __anext__(self) -> M:
        if self._ended:
            raise StopAsyncIteration
        while not self._ready:
            await self._receive()
        flags, payload = self._ready.pop()
        if flags & END_STREAM_FLAG:
            await self.aclose()
            if (error := _end_error(payload)) is not None:
                raise error
            raise StopAsyncIteration
        return decode(self._kind, payload)

    async def __aenter__(self) -> MessageStream[M]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the stream; the process in the sandbox keeps running."""
        self._ended = True
        if (pending := self._pending) is not None:
            self._pending = None
            pending.cancel()
            with shielded():
                await asyncio.wait((pending,))
            if pending.done() and not pending.cancelled():
                pending.exception()  # read, so that asyncio does not log it as never retrieved
        with shielded():
            await self._response.aclose()

    async def _receive(self) -> None:
        """Wait for bytes. After a cancellation (by a timeout, for example) call it again."""
        pending = self._pending or asyncio.ensure_future(self._next_chunk())
        self._pending = pending
        await asyncio.wait((pending,))
        self._pending = None
        try:
            chunk = None if pending.cancelled() else pending.result()
            if chunk is None:
                raise UnavailableError("the stream broke off: the sandbox was stopped")
            self._ready = list(self._decoder.feed(chunk))[::-1]
        except BaseException:
            await self.aclose()
            raise

    async def _next_chunk(self) -> bytes | None:
        with translated_errors():
            return await anext(self._chunks, None)


def _end_error(payload: bytes) -> Exception | None:
    try:
        body: Any = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return UnavailableError("the stream ended with something that is not JSON")
    error = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    return None if not error else error_from_json(msgspec.json.encode(error), 500)
