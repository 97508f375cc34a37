"""The HTTP session in which an image is pulled. A registry is hostile.

It may lead to any address and answer without end, so answers other than layers are short, plain
HTTP leads nowhere, and the whole pull can be broken off. Logins of the engine's own user, which the
client library would find in ``~/.netrc``, are never sent: others may name the registry.
"""

from __future__ import annotations

from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

if TYPE_CHECKING:
    import socket

    from sbx_jupyter.engine.templates.images.current_connection import CurrentConnection

MAX_SMALL: Final = 1024 * 1024
"""Bytes of an answer that is read as a whole: those of token services, redirects, refusals."""

_TIMEOUT: Final = (10, 120)


class RegistrySession(requests.Session):
    """Makes the requests of one pull, one after the other."""

    def __init__(self, connection: CurrentConnection, *, may_use_http: bool) -> None:
        super().__init__()
        self.auth = _no_login
        self.headers["Connection"] = "close"  # so that ``connection`` is always the last one
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = _Adapter(connection, may_use_http=may_use_http)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def rebuild_auth(self, prepared_request: Any, response: Any) -> None:
        """Send a login to no other host, and no login of the engine's user."""
        if self.should_strip_auth(response.request.url, prepared_request.url):
            prepared_request.headers.pop("Authorization", None)


class _Adapter(HTTPAdapter):
    def __init__(self, connection: CurrentConnection, *, may_use_http: bool) -> None:
        self._may_use_http = may_use_http
        self._pools = _pools(connection)
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = self._pools
        return manager

    def send(self, request: Any, *args: Any, **options: Any) -> Any:
        # A registry names its token server: no password is sent there unencrypted.
        if not self._may_use_http and not str(request.url).startswith("https://"):
            raise requests.exceptions.InvalidSchema("the registry leads to plain HTTP")
        options["timeout"] = options.get("timeout") or _TIMEOUT
        answer: Any = super().send(request, *args, **options)
        if answer.status_code != 200 or not options.get("stream"):
            _read_small(answer)
        return answer


def _read_small(answer: Any) -> None:
    """Read what requests would read to its end; raises ``RequestException`` if it is long."""
    try:
        content = answer.raw.read(MAX_SMALL + 1, decode_content=True)
    except HTTPError as error:
        raise requests.exceptions.ConnectionError(error) from error
    if len(content) > MAX_SMALL:
        answer.close()
        raise requests.exceptions.ContentDecodingError("the registry's answer is too long")
    answer._content, answer._content_consumed = content, True


def _no_login(request: Any) -> Any:
    return request


def _pools(connection: CurrentConnection) -> dict[str, Any]:
    """The classes with which urllib3 connects."""

    class Http(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return connection.use(super()._new_conn())

    class Https(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return connection.use(super()._new_conn())

    return {
        "http": type("HttpPool", (HTTPConnectionPool,), {"ConnectionCls": Http}),
        "https": type("HttpsPool", (HTTPSConnectionPool,), {"ConnectionCls": Https}),
    }
