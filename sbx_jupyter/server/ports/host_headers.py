"""Filters the headers between a browser and a port of a sandbox at a host name of its own.

The page has an origin of its own there, with cookies and storage. Only headers whose effect reaches
beyond that name are still hostile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbx_jupyter.server.ports.headers import HOP_BY_HOP, for_sandbox, move_location

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tornado.httputil import HTTPHeaders

COOKIE: Final = "sbx-port"
"""The cookie that stands for a grant; the program neither sees nor sets it."""

_ALSO_TO_SANDBOX: Final = frozenset({"authorization", "x-xsrftoken"})
"""Headers of the program's own at such a name: browsers send none of Jupyter's there."""

_NOT_TO_BROWSER: Final = HOP_BY_HOP | {
    # reach beyond the name: cookies and connections of its parents and neighbours
    "alt-svc",
    "clear-site-data",
    "nel",
    "public-key-pins",
    "set-cookie2",
    "strict-transport-security",
    # set anew
    "date",
    "location",
    "server",
    "set-cookie",
}


def for_sandbox_at_host(headers: HTTPHeaders, scheme: str, port: int) -> list[tuple[str, str]]:
    """Return the headers of a browser's request as the program gets them."""
    passed = [pair for pair in for_sandbox(headers, "", scheme, port) if pair[1]]
    passed += [(name, value) for name, value in headers.get_all() if _is_own(name)]
    if cookies := _other_cookies(headers):
        passed.append(("Cookie", cookies))
    return passed


def for_browser_at_host(
    headers: Iterable[tuple[str, str]], names: frozenset[str]
) -> list[tuple[str, str]]:
    """Return the headers of the program's answer as the browser gets them.

    ``names`` are those under which the program knows itself, for ``Location``.
    """
    passed: list[tuple[str, str]] = []
    for name, value in headers:
        known = name.lower()
        if known not in _NOT_TO_BROWSER:
            passed.append((name, value))
        elif known == "location":
            passed.append((name, move_location(value, "", names)))
        elif known == "set-cookie" and (cookie := _for_this_name(value)):
            passed.append((name, cookie))
    return passed


def grants_in(headers: HTTPHeaders) -> list[str]:
    """The tokens in the cookies of a request; a neighbour may have set one for a parent domain."""
    found = (pair.strip().partition("=") for pair in headers.get("Cookie", "").split(";"))
    return [value for name, _, value in found if name == COOKIE]


def grant_cookie(token: str, *, secure: bool) -> str:
    """The header that gives a browser the cookie for a grant, for this name only."""
    end = "; Secure" if secure else ""
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax{end}"


def _is_own(name: str) -> bool:
    return name.lower() in _ALSO_TO_SANDBOX


def _other_cookies(headers: HTTPHeaders) -> str:
    pairs = (pair.strip() for pair in headers.get("Cookie", "").split(";"))
    return "; ".join(pair for pair in pairs if pair and pair.partition("=")[0] != COOKIE)


def _for_this_name(cookie: str) -> str | None:
    """A ``Set-Cookie`` without its ``Domain``; ``None`` for the cookie of the grant."""
    pair, *attributes = (part.strip() for part in cookie.split(";"))
    if pair.partition("=")[0].strip() == COOKIE:
        return None
    kept = [each for each in attributes if not each.lower().startswith("domain")]
    return "; ".join([pair, *kept])
