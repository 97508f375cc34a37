"""A port of a sandbox at a host name of its own, where its page has an origin of its own.

A browser that is signed in to Jupyter is sent here with a one-time token, and gets a cookie for
this name alone. Jupyter serves nothing of its own under these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tornado import web

from sbx_jupyter.server.ports.host_headers import (
    for_browser_at_host,
    for_sandbox_at_host,
    grant_cookie,
    grants_in,
)
from sbx_jupyter.server.ports.passing import PassingHandler
from sbx_jupyter.server.ports.port_handler import ENTER
from sbx_jupyter.server.ports.upstream import check_port

if TYPE_CHECKING:
    from sbx_jupyter.server.ports.grants import Grant

_ENDED: Final = "open this port from Jupyter again: its permission has ended, or there was none"


@web.stream_request_body
class HostHandler(PassingHandler):
    """Passes requests of any method and path on to the port that the host name stands for."""

    # The one of jupyter_server takes an argument besides, which only jupyter_server itself passes.
    async def prepare(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Find out by the cookie who asks, before any byte of a body is passed on."""
        hosts = self._access.hosts
        route = None if hosts is None else hosts.find(self.request.host_name)
        if route is None:
            raise web.HTTPError(404)
        self._sandbox_id, self._port = route
        self._prefix, self._path = "", self.request.path
        self._target = self.request.uri or "/"
        check_port(self._port)
        if self._path.startswith(ENTER):
            self._enter(self._path.removeprefix(ENTER))
            return
        self._check_origin()
        await self._go_on_with(self._find_grant())

    def _enter(self, token: str) -> None:
        """Give the browser the cookie, and send it to the page that it wanted."""
        # From here on, logs show the address without the token.
        self.request.uri = ENTER
        found = self._access.one_time_tokens.use(token, self._sandbox_id, self._port)
        if found is None:
            raise web.HTTPError(403, _ENDED)
        cookie = grant_cookie(found.grant.token, secure=self.request.protocol == "https")
        # A whole address: two slashes at the start of a path would lead to another host.
        self._redirect(f"{self._origin}{found.target}", Set_Cookie=cookie)

    @property
    def _origin(self) -> str:
        return f"{self.request.protocol}://{self.request.host}"

    def _find_grant(self) -> Grant:
        for token in grants_in(self.request.headers):
            found = self._access.grants.find(token, self._sandbox_id, self._port)
            if found is not None:
                return found
        raise web.HTTPError(403, _ENDED)

    def _check_origin(self) -> None:
        """Refuse requests from pages of other origins, since they could carry the cookie.

        Those from a neighbouring name do: names below one domain are one site. Scripts, pictures
        and frames are fetched without ``Origin``, so ``Sec-Fetch-Site`` is checked, too.
        """
        headers = self.request.headers
        is_own = headers.get("Origin", self._origin).lower() == self._origin.lower()
        is_near = headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        if not is_own or not (is_near or self._is_visit()):
            raise web.HTTPError(403, "another origin cannot use this address")

    def _is_visit(self) -> bool:
        """Whether the browser shows the answer as the page of a tab."""
        headers = self.request.headers
        fetched = headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")
        return self.request.method in ("GET", "HEAD") and fetched == ("navigate", "document")

    def _passed_headers(self) -> list[tuple[str, str]]:
        return for_sandbox_at_host(self.request.headers, self.request.protocol, self._port)

    def _returned_headers(self, given: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return for_browser_at_host(given, self._names)
