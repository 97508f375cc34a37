"""``sbx/port/{id}/{port}/...``: a port of a sandbox, streamed both ways.

A browser that is signed in is sent on to a path with a grant, below which the page and everything
that it loads needs no cookie: its origin is not Jupyter's, so it gets none. Where each port has a
host name, it is sent on to that (``host_handler``). Programs that send Jupyter's token in a header
need no grant.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import JupyterHandler
from tornado import web
from tornado.httputil import url_concat
from tornado.iostream import StreamClosedError

from sbx_jupyter.client.api.transport import translated_errors
from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.protocol.access import Route, parse_port, parse_sandbox_id
from sbx_jupyter.protocol.connect import error_to_json
from sbx_jupyter.server.answers import (
    RESOURCE,
    audit_of,
    connections_of,
    logged,
    require,
    status_of,
)
from sbx_jupyter.server.ports.headers import SANDBOX_POLICY, for_browser, for_sandbox
from sbx_jupyter.server.ports.tunnel import run_tunnel, shake_hands
from sbx_jupyter.server.ports.upstream import (
    Upstream,
    attempts,
    check_port,
    is_closed_port,
    read_refusal,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import httpx

    from sbx_jupyter.server.ports.access import PortAccess
    from sbx_jupyter.server.ports.grants import Grant

_ADDRESS: Final = re.compile(
    r"(?P<prefix>.*?/sbx/port/(?P<id>[^/]+)/(?P<port>[0-9]{1,5}))"
    r"(?P<granted>/~(?P<grant>[A-Za-z0-9_-]{32}))?(?P<path>/.*)?\Z",
    re.DOTALL,
)
_UNLIMITED: Final = 1 << 62
_QUEUED: Final = 4
_OURS: Final = ("token", "_xsrf")
_READING: Final = ("GET", "HEAD")
_BODYLESS: Final = (204, 304)
SWITCHING: Final = 101

ENTER: Final = "/~sbx-enter/"
"""The path at a port's own host that lets a browser in; a one-time token follows."""


@web.stream_request_body
class PortHandler(JupyterHandler):
    """Passes requests of any method on to a program in a sandbox."""

    auth_resource = RESOURCE
    SUPPORTED_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

    _grant: Grant | None = None
    _chunks: asyncio.Queue[bytes | None] | None = None
    _sending: asyncio.Task[httpx.Response] | None = None

    async def prepare(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Find out who asks, before any byte of a body is passed on."""
        found = _ADDRESS.match(self.request.path)
        if found is None:
            raise web.HTTPError(404)
        self._target = self.request.uri or "/"
        # From here on, logs show the address without the grant.
        self.request.uri = found["prefix"] + (found["path"] or "/")
        self.request.headers.pop("Referer", None)
        self._sandbox_id = parse_sandbox_id(found["id"])
        self._port = parse_port(found["port"])
        check_port(self._port)
        self._prefix, self._path = found["prefix"], found["path"] or ""
        if not self.check_host():
            raise web.HTTPError(403)
        if found["grant"] and await self._use_grant(found["grant"], found["granted"]):
            return
        await super().prepare()
        if self._finished:
            return
        if self.current_user is None:
            self._ask_to_log_in()
            return
        await require(self, "execute")
        if "Authorization" in self.request.headers and self.token_authenticated:
            await self._begin_body()
        else:
            self._send_on()

    def check_xsrf_cookie(self) -> None:
        """Nothing to check: a cookie alone never passes a request on, a grant or a token does."""

    async def data_received(self, chunk: bytes) -> None:
        """Queue a piece of the body; waits while the sandbox is slower than the client."""
        if self._chunks is None or self._sending is None:
            return
        putting = asyncio.ensure_future(self._chunks.put(chunk))
        try:
            # The program may have answered already, for example to refuse the body.
            await asyncio.wait({putting, self._sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()

    @allow_unauthenticated
    async def get(self, *_: str, **__: str) -> None:
        if self.request.headers.get("Upgrade", "").lower() == "websocket":
            await self._tunnel()
        else:
            await self._pass_on()

    @allow_unauthenticated
    async def options(self, *_: str, **__: str) -> None:
        if self._grant is not None and "Access-Control-Request-Method" in self.request.headers:
            self._answer_preflight()
        else:
            await self._pass_on()

    head = post = put = patch = delete = get

    def on_connection_close(self) -> None:
        """Close the connection to the sandbox when the client disconnects."""
        if self._sending is not None:
            self._sending.cancel()
        super().on_connection_close()

    def on_finish(self) -> None:
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer failures as JSON, with the policy: what is below this path never runs here."""
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        self._clear_headers()
        self._announce_close()
        self.set_header("Content-Security-Policy", SANDBOX_POLICY)
        self.set_header("Content-Type", "application/json")
        self._allow_null_origin()
        if isinstance(error, SbxError):
            self.set_status(status_of(error))
            self._end(msgspec.json.encode(error_to_json(error)))
            return
        message = error.log_message if isinstance(error, web.HTTPError) else None
        text = message or ("this needs a login or a token" if status_code == 403 else self._reason)
        self._end(msgspec.json.encode({"code": status_code, "message": text}))

    def log_exception(self, typ: Any, value: BaseException | None, tb: Any) -> None:
        if isinstance(value, SbxError):
            self.log.info("%s %s: %s", self.request.method, self.request.uri, logged(value))
        else:
            super().log_exception(typ, value, tb)

    async def _use_grant(self, token: str, granted: str) -> bool:
        """Take the grant in the path; false when it has ended and a signed-in user may get another.

        Pages of other origins cannot know it; one that does know it, such as a log's reader, is
        still refused when its browser says that it is elsewhere.
        """
        grant = self._access.grants.find(token, self._sandbox_id, self._port)
        if grant is None:
            return False
        if self.request.headers.get("Origin", "null") != "null":
            raise web.HTTPError(403, "another origin cannot use this address")
        self._prefix += granted
        await self._go_on_with(grant)
        return True

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

    async def _body(self) -> AsyncIterator[bytes]:
        assert self._chunks is not None
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    def _ask_to_log_in(self) -> None:
        """Redirect a browser to the login page; raise 403 for everything else."""
        if self.request.method != "GET" or "text/html" not in self.request.headers.get(
            "Accept", ""
        ):
            raise web.HTTPError(403)
        self._announce_close()
        self.redirect(url_concat(self.get_login_url(), {"next": self.request.uri}))

    def _send_on(self) -> None:
        """Redirect a browser that is signed in to a path with a grant; raise 403 for writes."""
        if self.request.method not in ("GET", "HEAD") or "Upgrade" in self.request.headers:
            raise web.HTTPError(403, "open the page first: a login alone changes nothing here")
        grant = self._access.grants.give(self.current_user, self._sandbox_id, self._port)
        if (audit := audit_of(self)) is not None:
            audit.note(self, "port.link", self._sandbox_id, port=self._port)
        target = f"{self._path or '/'}{self._query()}"
        at_host = self._address_at_host(grant, target)
        self._redirect(at_host or f"{self._prefix}/~{grant.token}{target}")

    def _address_at_host(self, grant: Grant, target: str) -> str | None:
        """The address at which the port's own host lets a browser in; ``None`` if it has none."""
        hosts = self._access.hosts_for(self.request.host)
        route = Route(self._sandbox_id, self._port)
        address = None if hosts is None else hosts.address(route, self.request.host)
        if address is None:
            return None
        token = self._access.entries.make(grant, target)
        return f"{self.request.protocol}://{address}{ENTER}{token}"

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

        A proxy that does not know would send the next request on it, and get no answer.
        """
        self.set_header("Connection", "close")

    @property
    def _access(self) -> PortAccess:
        return self.settings["sbx_jupyter"].ports

    def _query(self) -> str:
        """The query for the program; without what is Jupyter's, unless the grant stands for it."""
        query = urlsplit(self._target).query
        if self._grant is None and any(f"{name}=" in query for name in _OURS):
            pairs = parse_qsl(query, keep_blank_values=True)
            query = urlencode([pair for pair in pairs if pair[0] not in _OURS])
        return f"?{query}" if query else ""

    async def _upstream(self) -> Upstream:
        self.path_kwargs["sandbox_id"] = self._sandbox_id
        # Not what ``connection`` in the query names: that query is the program's.
        connection = connections_of(self).of(self._sandbox_id)
        return Upstream(await connection.runtime(self._sandbox_id), self._port)

    def _passed_headers(self) -> list[tuple[str, str]]:
        return for_sandbox(self.request.headers, self._prefix, self.request.protocol, self._port)

    def _returned_headers(self, given: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return for_browser(given, self._prefix, self._names)

    @property
    def _names(self) -> frozenset[str]:
        """The names under which the program knows itself."""
        return frozenset({f"localhost:{self._port}", f"127.0.0.1:{self._port}"})

    async def _send(
        self, upstream: Upstream, body: AsyncIterator[bytes] | None = None
    ) -> httpx.Response:
        """Send the request to the sandbox; the answer's body is not read yet."""
        headers: dict[str, str] = {"Accept-Encoding": "identity"}
        for name, value in [*self._passed_headers(), *upstream.routing()]:
            known = next((each for each in headers if each.lower() == name.lower()), None)
            joined = known is not None and name.lower() not in ("accept-encoding", "host")
            headers[known or name] = f"{headers[known]}, {value}" if joined and known else value
        return await upstream.runtime.transport.open(
            self.request.method or "GET",
            upstream.url + (self._path or "/") + self._query(),
            headers=headers,
            content=body,
            timeout=0,
        )

    async def _answered(self) -> httpx.Response:
        """Return the program's answer; a request that only reads waits for one that starts."""
        if self._sending is not None:
            await self._end_body()
            return await self._sending
        upstream = await self._upstream()
        async for is_last in attempts():
            self._sending = asyncio.create_task(self._send(upstream))
            response = await self._sending
            if is_last or response.status_code != 502 or self.request.method not in _READING:
                return response
            if not is_closed_port(response.status_code, await read_refusal(response)):
                break
        raise UnavailableError(f"nothing answers on port {self._port} of the sandbox")

    async def _end_body(self) -> None:
        """Tell the request to the sandbox that its body has ended."""
        assert self._chunks is not None
        assert self._sending is not None
        putting = asyncio.ensure_future(self._chunks.put(None))
        try:
            await asyncio.wait({putting, self._sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()

    async def _pass_on(self) -> None:
        response = await self._answered()
        try:
            self._start_answer(response.status_code, response.headers.raw)
            await self._copy(response)
        finally:
            await response.aclose()

    def _start_answer(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._clear_headers()
        self.set_status(status)
        given = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
        for name, value in self._returned_headers(given):
            self.add_header(name, value)
        self._allow_null_origin()

    async def _copy(self, response: httpx.Response) -> None:
        try:
            await self.flush()
            if response.status_code not in _BODYLESS and self.request.method != "HEAD":
                with translated_errors():
                    async for chunk in response.aiter_raw():
                        self.write(chunk)  # pyright: ignore[reportUnknownMemberType] - tornado's dict
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
        """Pass a WebSocket on; waits for a program that starts."""
        upstream = await self._upstream()
        target = (self._path or "/") + self._query()
        async for is_last in attempts():
            shaken = await shake_hands(upstream, target, self._passed_headers())
            if shaken.status == SWITCHING:
                with contextlib.nullcontext() if self._grant is None else self._grant.held():
                    await run_tunnel(self.detach(), shaken)
                return
            shaken.close()
            if is_last or not is_closed_port(shaken.status, shaken.body):
                self._refuse_socket(shaken.status)
                return

    def _refuse_socket(self, status: int) -> None:
        """Answer a handshake that the program refused; browsers show no more than the status."""
        self._clear_headers()
        self.set_header("Content-Security-Policy", SANDBOX_POLICY)
        self.set_status(status if 400 <= status < 600 else 502)
        self._end()

    def _allow_null_origin(self) -> None:
        """Let the page that has the grant read the answer; its origin is opaque."""
        if self._grant is not None and self.request.headers.get("Origin") == "null":
            self.set_header("Access-Control-Allow-Origin", "null")
            self.set_header("Access-Control-Allow-Credentials", "true")
            self.add_header("Vary", "Origin")

    def _end(self, body: bytes | None = None) -> None:
        self.finish(body)  # pyright: ignore[reportUnknownMemberType] - tornado's dict

    def _clear_headers(self) -> None:
        """Remove what Jupyter sets on its own pages."""
        for name in list(self._headers):
            self.clear_header(name)

    def _answer_preflight(self) -> None:
        asked = self.request.headers.get("Access-Control-Request-Headers", "*")
        self._clear_headers()
        self._allow_null_origin()
        self.set_header("Access-Control-Allow-Methods", ", ".join(self.SUPPORTED_METHODS))
        self.set_header("Access-Control-Allow-Headers", asked)
        self.set_header("Access-Control-Max-Age", "600")
        self.set_status(204)
        self._end()
