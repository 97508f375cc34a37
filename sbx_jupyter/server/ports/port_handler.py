"""``sbx/port/{id}/{port}/...``: a port of a sandbox, streamed both ways.

A browser that is signed in is sent on to a path with a grant, below which the page and everything
that it loads needs no cookie: its origin is not Jupyter's, so it gets none. Where each port has a
host name, it is sent on to that (``host_handler``). Programs that send Jupyter's token in a header
need no grant.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from jupyter_server.auth.decorator import allow_unauthenticated
from tornado import web
from tornado.httputil import url_concat

from sbx_jupyter.protocol.access import Route, parse_port, parse_sandbox_id
from sbx_jupyter.server.answers import audit_of, require
from sbx_jupyter.server.ports.headers import for_browser, for_sandbox
from sbx_jupyter.server.ports.passing import PassingHandler
from sbx_jupyter.server.ports.upstream import check_port

if TYPE_CHECKING:
    from sbx_jupyter.server.ports.grants import Grant

_ADDRESS: Final = re.compile(
    r"(?P<prefix>.*?/sbx/port/(?P<id>[^/]+)/(?P<port>[0-9]{1,5}))"
    r"(?P<granted>/~(?P<grant>[A-Za-z0-9_-]{32}))?(?P<path>/.*)?\Z",
    re.DOTALL,
)

ENTER: Final = "/~sbx-enter/"
"""The path at a port's own host that lets a browser in; a one-time token follows."""


@web.stream_request_body
class PortHandler(PassingHandler):
    """Finds out who may pass requests on to a program in a sandbox, below this server's path."""

    # The one of jupyter_server takes an argument besides, which only jupyter_server itself passes.
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

    @allow_unauthenticated
    async def options(self, *_: str, **__: str) -> None:
        if self._grant is not None and "Access-Control-Request-Method" in self.request.headers:
            self._answer_preflight()
        else:
            await self._pass_on()

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
        token = self._access.one_time_tokens.make(grant, target)
        return f"{self.request.protocol}://{address}{ENTER}{token}"

    def _passed_headers(self) -> list[tuple[str, str]]:
        return for_sandbox(self.request.headers, self._prefix, self.request.protocol, self._port)

    def _returned_headers(self, given: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return for_browser(given, self._prefix, self._names)

    def _allow_null_origin(self) -> None:
        """Let the page that has the grant read the answer; its origin is opaque."""
        if self._grant is not None and self.request.headers.get("Origin") == "null":
            self.set_header("Access-Control-Allow-Origin", "null")
            self.set_header("Access-Control-Allow-Credentials", "true")
            self.add_header("Vary", "Origin")

    def _answer_preflight(self) -> None:
        asked = self.request.headers.get("Access-Control-Request-Headers", "*")
        self._clear_headers()
        self._allow_null_origin()
        self.set_header("Access-Control-Allow-Methods", ", ".join(self.SUPPORTED_METHODS))
        self.set_header("Access-Control-Allow-Headers", asked)
        self.set_header("Access-Control-Max-Age", "600")
        self.set_status(204)
        self._end()
