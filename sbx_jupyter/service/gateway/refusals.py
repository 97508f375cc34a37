"""What the gateway answers when it cannot deliver a request (interface 2.4)."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.errors import (
    AbortedError,
    NotFoundError,
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
NO_TRAFFIC_TOKEN: Final = (
    "Sandbox is secured with traffic access token."
    " Token header 'e2b-traffic-access-token' is missing"
)
WRONG_TRAFFIC_TOKEN: Final = (
    "Sandbox is secured with traffic access token."
    " Provided token in header 'e2b-traffic-access-token' is invalid"
)
IN_TRANSITION: Final = "The sandbox is still transitioning. Try again in a moment."
TOO_MANY_CONNECTIONS: Final = "Too many connections to the sandbox"

INTERNAL_PATHS: Final = frozenset(
    {"/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"}
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer of the gateway itself."""

    status: int
    body: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    def render(self, headers: HTTPHeaders) -> tuple[str, bytes]:
        """Content type and body, as a page for people who navigate with a browser."""
        if self.text:
            return "text/plain; charset=utf-8", self.text.encode()
        if wants_page(headers):
            return "text/html; charset=utf-8", _page(self.status, str(self.body["message"]))
        return JSON_UTF8, msgspec.json.encode(self.body)


def refuse_text(error: SbxError) -> Refusal:
    """400 with the text of a routing error."""
    return Refusal(400, text=error.message)


def refuse(status: int, route: Route, message: str, **more: Any) -> Refusal:
    """The JSON form."""
    body = {"sandboxId": route.sandbox_id, "message": message, **more, "code": status}
    return Refusal(status, body)


def refuse_internal(path: str) -> Refusal:
    """404 for the routes that belong to the platform alone."""
    return Refusal(404, {"message": f"{path} is not available", "path": path, "code": 404})


def refuse_error(error: SbxError, route: Route) -> Refusal:
    """What an error of ``Engine.live`` becomes."""
    if isinstance(error, NotFoundError):
        return refuse(502, route, NOT_FOUND)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return refuse(403, route, error.message)
    if isinstance(error, AbortedError):
        return refuse(409, route, IN_TRANSITION)
    if isinstance(error, ResourceExhaustedError):
        return refuse(429, route, error.message)
    return refuse(502, route, NOT_FOUND)


def wants_page(headers: HTTPHeaders) -> bool:
    """Whether a person looks at the answer: a browser's navigation, not a script's request."""
    if "mozilla/" not in headers.get("User-Agent", "").lower():
        return False
    accept = headers.get("Accept", "")
    if "application/json" in accept and "text/html" not in accept:
        return False
    scripted = ("cors", "no-cors", "same-origin", "websocket")
    return headers.get("Sec-Fetch-Mode", "") not in scripted and "X-Requested-With" not in headers


def _page(status: int, message: str) -> bytes:
    title = html.escape(f"{status} {HTTPStatus(status).phrase}")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{title}</title>"
        "<style>body{font:16px/1.5 system-ui,sans-serif;margin:15vh auto;max-width:32rem;"
        "padding:0 1rem}h1{font-size:1.25rem}</style>"
        f"<h1>{title}</h1><p>{html.escape(message)}</p></html>"
    ).encode()
