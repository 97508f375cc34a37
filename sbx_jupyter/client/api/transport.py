"""Sends the client's HTTP requests: retries them, and raises failures as ``SbxError``."""

from __future__ import annotations

import asyncio
import random
from contextlib import contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx

from sbx_jupyter.client.cleanup import shielded
from sbx_jupyter.client.connection import tls
from sbx_jupyter.client.connection.config import is_loopback
from sbx_jupyter.errors import (
    DeadlineExceededError,
    NoSpaceError,
    NotFoundError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.protocol.connect import error_from_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Generator, Mapping

    from sbx_jupyter.client.connection.config import ConnectionConfig

CONNECT_TIMEOUT: Final = 10.0
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 10.0
_ERROR_BODY_LIMIT: Final = 64 * 1024
_RETRY_STATUSES: Final = frozenset({429, 502, 503, 504})

Params = dict[str, str] | None


class Transport:
    """The connection pool of a deployment, shared by all its sandboxes.

    Use it on one event loop only, and close it with ``aclose``.
    """

    def __init__(self, config: ConnectionConfig) -> None:
        self.config = config
        self._clients: dict[tuple[bool, bool], httpx.AsyncClient] = {}

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Params = None,
        content: bytes | AsyncIterable[bytes] | None = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        """Send a request and read its whole answer, of any status.

        Raises ``UnavailableError`` when the connection fails, ``DeadlineExceededError`` after
        ``timeout`` seconds without data (default: the configuration's; 0: no limit).
        """
        response = await self.open(
            method, url, headers=headers, params=params, content=content, timeout=timeout
        )
        try:
            with translated_errors():
                await response.aread()
        finally:
            with shielded():
                await response.aclose()
        return response

    async def open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Params = None,
        content: bytes | AsyncIterable[bytes] | None = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        """Like ``request``, but the caller reads the body and closes the response."""
        client = self._client_for(url)
        repeatable = content is None or isinstance(content, bytes)
        for attempt in range(1, self.config.attempts + 1):
            last = attempt == self.config.attempts or not repeatable
            request = client.build_request(
                method,
                url,
                headers=dict(headers or {}),
                params=params,
                content=content,
                timeout=self._timeout(timeout),
            )
            try:
                with translated_errors():
                    response = await client.send(request, stream=True)
            except UnavailableError as error:
                if last or not isinstance(error.__cause__, httpx.ConnectError):
                    raise
                await asyncio.sleep(_delay(attempt, None))
                continue
            if last or not _wants_retry(response):
                return response
            await response.aclose()
            await asyncio.sleep(_delay(attempt, response.headers.get("Retry-After")))
        raise AssertionError("the last attempt returns or raises")

    async def aclose(self) -> None:
        """Close every connection; open streams end with ``UnavailableError``."""
        clients, self._clients = list(self._clients.values()), {}
        with shielded():
            for client in clients:
                await client.aclose()

    def _client_for(self, url: str) -> httpx.AsyncClient:
        # http and https have separate clients: the one for http on loopback trusts no server.
        kind = is_local(url), _is_plain(url)
        if (client := self._clients.get(kind)) is None:
            client = self._clients[kind] = create_client(
                self.config, url, headers=dict(self.config.headers)
            )
        return client

    def _timeout(self, timeout: float | None) -> httpx.Timeout:
        if timeout is None:
            timeout = self.config.request_timeout
        return httpx.Timeout(timeout or None, connect=CONNECT_TIMEOUT)


def create_client(
    config: ConnectionConfig, url: str, *, headers: Mapping[str, str] | None = None
) -> httpx.AsyncClient:
    """Make a client for ``url`` and others with the same scheme; all are loopback, or none is.

    It uses the environment's proxy, except for loopback. Raises
    ``InvalidArgumentError`` when the certificate authorities cannot be read.
    """
    local = is_local(url)
    needs_tls = not (local and _is_plain(url))
    return httpx.AsyncClient(
        trust_env=not local,
        verify=tls.create_context(config.ca_file) if needs_tls else tls.create_refusing_context(),
        headers={"User-Agent": "sbx-jupyter", **(headers or {})},
        # Cookies of one sandbox would be sent to the others, which share this client.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        follow_redirects=False,
    )


@contextmanager
def translated_errors() -> Generator[None]:
    """Raise errors of httpx as ``UnavailableError`` or ``DeadlineExceededError``."""
    try:
        yield
    except httpx.ConnectTimeout as error:
        raise UnavailableError(f"no connection to {_place(error)} in time") from error
    except httpx.TimeoutException as error:
        raise DeadlineExceededError(f"no answer from {_place(error)} in time") from error
    except httpx.ConnectError as error:
        raise UnavailableError(f"cannot connect to {_place(error)}: {error}") from error
    except (httpx.TransportError, httpx.StreamError) as error:
        how = str(error) or type(error).__name__
        raise UnavailableError(f"the connection broke: {how}") from error


async def raise_for_status(response: httpx.Response) -> httpx.Response:
    """Return a successful response; else close it and raise the error in its body."""
    if response.status_code < 400:
        return response
    raw = bytearray()
    try:
        with translated_errors():
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > _ERROR_BODY_LIMIT:
                    break
    finally:
        with shielded():
            await response.aclose()
    raise status_error(bytes(raw), response.status_code)


def status_error(raw: bytes, status: int) -> SbxError:
    """The error for a failed answer's body and status (interface 1.0.4, 2.4, 3.2 and 4.1)."""
    error = error_from_json(raw, status)
    if status == 502 and "was not found" in error.message:
        return NotFoundError(error.message)
    if status == 507:
        return NoSpaceError(error.message)
    return error


def is_local(url: str) -> bool:
    """Whether an address leads to this machine."""
    return is_loopback(urlsplit(url).hostname or "")


def _is_plain(url: str) -> bool:
    return urlsplit(url).scheme == "http"


def _place(error: httpx.RequestError) -> str:
    try:
        return f"{error.request.url.host}:{error.request.url.port or ''}".rstrip(":")
    except RuntimeError:
        return "the server"


def _wants_retry(response: httpx.Response) -> bool:
    stated = response.headers.get("Should-Retry", "").lower()
    return response.status_code in _RETRY_STATUSES and stated == "true"


def _delay(attempt: int, retry_after: str | None) -> float:
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return min(float(retry_after), _LONGEST_DELAY)
    longest = min(_FIRST_DELAY * 2 ** (attempt - 1), _LONGEST_DELAY)
    return longest * random.uniform(0.5, 1.0)
