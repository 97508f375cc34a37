"""Passes a request on to a port of a sandbox, and the answer back, of any size and length.

The permission to do so is checked in ``handler`` and ``host_handler``.
"""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import msgspec
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import JupyterHandler
from tornado import web
from tornado.iostream import StreamClosedError

from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.protocol.access import PORT_TUNNELS
from sbx_jupyter.protocol.connect import error_to_json
from sbx_jupyter.server.answers import RESOURCE, connections_of, logged, status_of
from sbx_jupyter.server.ports.headers import SANDBOX_POLICY
from sbx_jupyter.server.ports.sending import PortAnswer, PortRequest, send
from sbx_jupyter.server.ports.tunnel import BrokenAnswerError
from sbx_jupyter.server.ports.upstream import Upstream, attempts, is_closed_port
from sbx_jupyter.server.ports.websocket import run_tunnel, shake_hands

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sbx_jupyter.server.ports.access import PortAccess
    from sbx_jupyter.server.ports.grants import Grant
    from sbx_jupyter.server.ports.websocket import Handshake

_UNLIMITED: Final = 1 << 62
_QUEUED: Final = 4
_OURS: Final = ("token", "_xsrf")
SWITCHING: Final = 101


class PassingHandler(JupyterHandler):
    """Base of the handlers of ports; a subclass checks who asks, then calls ``_begin_body``."""

    auth_resource = RESOURCE
    SUPPORTED_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

    _sandbox_id = ""
    _port = 0
    _prefix = ""
    """The path of this server below which the program's paths begin."""
    _path = ""
    _target = "/"
    """The path and query that the browser asked for."""

    _grant: Grant | None = None
    _chunks: asyncio.Queue[bytes | None] | None = None
    _sending: asyncio.Task[PortAnswer] | None = None
    _shaking: asyncio.Task[Handshake] | None = None

    def check_xsrf_cookie(self) -> None:
        """Nothing to check: a cookie alone never passes a request on, a grant or a token does."""

    async def data_received(self, chunk: bytes) -> None:
        """Queue a piece of the body; waits while the sandbox is slower than the client."""
        await self._put(chunk)

    @allow_unauthenticated
    async def get(self, *_: str, **__: str) -> None:
        if self.request.headers.get("Upgrade", "").lower() == "websocket":
            await self._tunnel()
        else:
            await self._pass_on()

    @allow_unauthenticated
    async def options(self, *_: str, **__: str) -> None:
        await self._pass_on()

    head = post = put = patch = delete = get

    def on_connection_close(self) -> None:
        """Close the connection to the sandbox when the client disconnects."""
        self._cancel()
        super().on_connection_close()

    def on_finish(self) -> None:
        self._cancel()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer failures as JSON, with the policy: what is below this path never runs here."""
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        self._clear_headers()
        self._announce_close()
        self.set_header("Content-Security-Policy", SANDBOX_POLICY)
        self.set_header("Content-Type", "application/json")
        self._allow_null_origin()
        if isinstance(error, SbxError):
            is_bad = isinstance(error, BrokenAnswerError)
            self.set_status(HTTPStatus.BAD_GATEWAY if is_bad else status_of(error))
            self._end(msgspec.json.encode(error_to_json(error)))
            return
        message = error.log_message if isinstance(error, web.HTTPError) else None
        text = message or ("this needs a login or a token" if status_code == 403 else self._reason)
        self._end(msgspec.json.encode({"code": status_code, "message": text}))

    def log_exception(self, typ: Any, value: BaseException | None, tb: Any) -> None:
        if isinstance(value, asyncio.CancelledError):
            return  # the client left
        if isinstance(value, SbxError):
            self.log.info("%s %s: %s", self.request.method, self.request.uri, logged(value))
        else:
            super().log_exception(typ, value, tb)

    # Hooks that differ between addresses with a path and with a host name.

    def _passed_headers(self) -> list[tuple[str, str]]:
        """The headers of the request as the program gets them."""
        raise NotImplementedError

    def _returned_headers(self, given: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The headers of the program's answer as the browser gets them."""
        raise NotImplementedError

    def _allow_null_origin(self) -> None:
        """Let a page with an opaque origin read the answer, where that is allowed."""

    # Methods for subclasses to call.

    async def _go_on_with(self, grant: Grant) -> None:
        """Pass this request on in the name of the grant's user."""
        self._grant = grant
        self.current_user = self._jupyter_current_user = grant.user
        await self._begin_body()

    async def _begin_body(self) -> None:
        """Open the request to the sandbox if a body follows, and lift the limit of its size."""
        headers = self.request.headers
        if "Transfer-Encoding" in headers or headers.get("Content-Length", "0") != "0":
            connection: Any = self.request.connection
            connection.set_max_body_size(_UNLIMITED)
            upstream = await self._upstream()
            self._chunks = asyncio.Queue(_QUEUED)
            self._sending = asyncio.create_task(self._send(upstream, self._body()))

    def _redirect(self, location: str, **headers: str) -> None:
        """Send the browser on; its new page gets no hold of the tab that opened it."""
        self._clear_headers()
        self._announce_close()
        self.set_header("Cache-Control", "no-store")
        self.set_header("Cross-Origin-Opener-Policy", "same-origin")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Location", location)
        for name, value in headers.items():
            self.set_header(name.replace("_", "-"), value)
        self.set_status(302)
        self._end()

    def _announce_close(self) -> None:
        """Say that the connection closes, as tornado does after an answer before the body was read.

        A proxy that is not told would send the next request on it, and get no answer.
        """
        self.set_header("Connection", "close")

    @property
    def _access(self) -> PortAccess:
        return self.settings["sbx_jupyter"].ports

    def _query(self) -> str:
        """The query for the program; without what is Jupyter's, unless the grant stands for it."""
        query = urlsplit(self._target).query
        if self._grant is None and any(f"{name}=" in unquote_plus(query) for name in _OURS):
            pairs = parse_qsl(query, keep_blank_values=True)
            query = urlencode([pair for pair in pairs if pair[0] not in _OURS])
        return f"?{query}" if query else ""

    @property
    def _names(self) -> frozenset[str]:
        """The names under which the program knows itself."""
        return frozenset({f"localhost:{self._port}", f"127.0.0.1:{self._port}"})

    def _end(self, body: bytes | None = None) -> None:
        self.finish(body)  # pyright: ignore[reportUnknownMemberType] - tornado's dict

    def _clear_headers(self) -> None:
        """Remove the headers that Jupyter sets on its own pages."""
        for name in list(self._headers):
            self.clear_header(name)

    # The request.

    def _cancel(self) -> None:
        """Stop waiting for the program; tornado lets a handler go on when its client leaves."""
        for task in (self._sending, self._shaking):
            if task is not None:
                task.cancel()

    async def _put(self, chunk: bytes | None) -> None:
        """Queue a piece of the body, or its end, unless the program has answered already."""
        if self._chunks is None or self._sending is None or self._sending.done():
            return
        if not self._chunks.full():
            self._chunks.put_nowait(chunk)
            return
        putting = asyncio.ensure_future(self._chunks.put(chunk))
        try:
            await asyncio.wait({putting, self._sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()

    async def _body(self) -> AsyncIterator[bytes]:
        assert self._chunks is not None
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    async def _upstream(self) -> Upstream:
        self.path_kwargs["sandbox_id"] = self._sandbox_id
        # Not what ``connection`` in the query names: that query is the program's.
        connection = connections_of(self).of(self._sandbox_id)
        runtime = await connection.runtime(self._sandbox_id)
        return Upstream(runtime, self._port, connection.has_feature(PORT_TUNNELS))

    async def _send(
        self, upstream: Upstream, body: AsyncIterator[bytes] | None = None
    ) -> PortAnswer:
        """Send the request to the sandbox; the answer's body is not read yet."""
        method, target = self.request.method or "GET", (self._path or "/") + self._query()
        request = PortRequest(method, target, self._passed_headers(), body)
        return await send(self._access.tunnels, upstream, request)

    # The answer.

    async def _pass_on(self) -> None:
        if self._sending is not None:
            await self._put(None)
        else:
            self._sending = asyncio.create_task(self._send(await self._upstream()))
        answer = await self._sending
        try:
            self._start_answer(answer)
            await self._copy(answer)
        finally:
            await answer.aclose()

    def _start_answer(self, answer: PortAnswer) -> None:
        self._clear_headers()
        self.set_status(answer.status)
        for name, value in self._returned_headers(answer.headers):
            self.add_header(name, value)
        self._allow_null_origin()

    async def _copy(self, answer: PortAnswer) -> None:
        try:
            # Small answers leave in one piece, and no head waits long for a body.
            piece = await answer.receive_soon()
            if piece is None:
                await self.flush()
                piece = await answer.receive()
            while piece:
                self.write(piece)  # pyright: ignore[reportUnknownMemberType] - tornado's dict
                await self.flush()
                piece = await answer.receive()
            await self.flush()
        except SbxError as e:
            self.log.info("%s %s was cut: %s", self.request.method, self.request.uri, logged(e))
            connection: Any = self.request.connection
            connection.stream.close()
        except StreamClosedError:
            return
        else:
            self._end()

    async def _tunnel(self) -> None:
        """Pass a WebSocket on."""
        self._shaking = asyncio.create_task(self._shake())
        shaken = await self._shaking
        try:
            if shaken.status != SWITCHING:
                self._refuse_socket(shaken.status)
                return
            with contextlib.nullcontext() if self._grant is None else self._grant.held():
                await run_tunnel(self.detach(), shaken)
        finally:
            shaken.close()

    async def _shake(self) -> Handshake:
        """The program's answer to the handshake; waits for a program that starts."""
        upstream = await self._upstream()
        target = (self._path or "/") + self._query()
        async for is_last in attempts():
            shaken = await shake_hands(upstream, target, self._passed_headers())
            if is_last or not is_closed_port(shaken.status, shaken.body):
                return shaken
            shaken.close()
        raise UnavailableError(f"nothing answers on port {upstream.port} of the sandbox")

    def _refuse_socket(self, status: int) -> None:
        """Answer a handshake that the program refused; browsers show no more than the status."""
        self._clear_headers()
        self.set_header("Content-Security-Policy", SANDBOX_POLICY)
        self.set_status(status if 400 <= status < 600 else 502)
        self._end()
