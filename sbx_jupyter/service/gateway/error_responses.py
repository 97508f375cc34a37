"""The gateway's error responses: for requests that it cannot forward (interface 2.4)."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.errors import (
    AbortedError,
    PermissionDeniedError,
    ResourceExhaustedError,
    SbxError,
    UnauthenticatedError,
)
from sbx_jupyter.service.answers import JSON_UTF8

if TYPE_CHECKING:
    from tornado.httputil import HTTPHeaders

    from sbx_jupyter.protocol.access import Route

NOT_FOUND: Final = "The sandbox was not found"
CLOSED_PORT: Final = "The sandbox is running but port is not open"
IN_TRANSITION: Final = "The sandbox is still transitioning. Try again in a moment."
TOO_MANY_CONNECTIONS: Final = "Too many connections to the sandbox"

INTERNAL_PATHS: Final = frozenset(
    {"/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"}
)


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response of the gateway itself: a JSON ``body``, or ``text`` if that is given."""

    status: int
    body: dict[str, object] = field(default_factory=dict[str, object])
    text: str = ""

    @classmethod
    def for_route(cls, status: int, route: Route, message: str, **details: int) -> ErrorResponse:
        """The JSON error about one port of one sandbox."""
        body: dict[str, object] = {
            "sandboxId": route.sandbox_id,
            "message": message,
            **details,
            "code": status,
        }
        return cls(status, body)

    @classmethod
    def from_error(cls, error: SbxError, route: Route) -> ErrorResponse:
        """The response for an error raised by ``Engine.live`` or by a check of a token."""
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return cls.for_route(403, route, error.message)
        if isinstance(error, AbortedError):
            return cls.for_route(409, route, IN_TRANSITION)
        if isinstance(error, ResourceExhaustedError):
            return cls.for_route(429, route, error.message)
        return cls.for_route(502, route, NOT_FOUND)

    @classmethod
    def for_internal_path(cls, path: str) -> ErrorResponse:
        """404 for the routes that only the platform may call."""
        return cls(404, {"message": f"{path} is not available", "path": path, "code": 404})

    def render(self, headers: HTTPHeaders) -> tuple[str, bytes]:
        """Content type and body: JSON, or HTML if ``headers`` are a browser's navigation."""
        if self.text:
            return "text/plain; charset=utf-8", self.text.encode()
        if wants_page(headers):
            return "text/html; charset=utf-8", _page(self.status, str(self.body["message"]))
        return JSON_UTF8, msgspec.json.encode(self.body)


class GatewayError(SbxError):
    """The gateway answers the request itself, with ``response``."""

    def __init__(self, response: ErrorResponse) -> None:
        super().__init__(response.text or str(response.body["message"]))
        self.response = response


def wants_page(headers: HTTPHeaders) -> bool:
    """Whether a browser navigates to this address, so that a person reads the response."""
    if "mozilla/" not in headers.get("User-Agent", "").lower():
        return False
    accept = headers.get("Accept", "")
    if "application/json" in accept and "text/html" not in accept:
        return False
    script_modes = ("cors", "no-cors", "same-origin", "websocket")
    return (
        headers.get("Sec-Fetch-Mode", "") not in script_modes and "X-Requested-With" not in headers
    )


def _page(status: int, message: str) -> bytes:
    title = html.escape(f"{status} {HTTPStatus(status).phrase}")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{title}</title>"
        "<style>body{font:16px/1.5 system-ui,sans-serif;margin:15vh auto;max-width:32rem;"
        "padding:0 1rem}h1{font-size:1.25rem}</style>"
        f"<h1>{title}</h1><p>{html.escape(message)}</p></html>"
    ).encode()
