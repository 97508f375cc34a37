"""Filters and changes the headers between a browser and a port of a sandbox.

Everything that a sandbox answers is hostile, and arrives on Jupyter's own origin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tornado.httputil import HTTPHeaders

SANDBOX_POLICY: Final = (
    "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-pointer-lock"
)
"""Gives every answer an origin of its own, so that a page cannot script Jupyter's."""

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

_NOT_TO_SANDBOX: Final = HOP_BY_HOP | {
    # credentials of Jupyter and of proxies before it
    "authorization",
    "cookie",
    "x-xsrftoken",
    # where the user is and comes from
    "forwarded",
    "referer",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-real-ip",
    "x-scheme",
    # set anew
    "host",
    "origin",
    # how our own interface routes and authorizes
    "e2b-sandbox-id",
    "e2b-sandbox-port",
    "e2b-traffic-access-token",
    "x-access-token",
    "x-api-key",
    # kept for the handshake of a WebSocket only
    "expect",
}

_NOT_TO_BROWSER: Final = HOP_BY_HOP | {
    # would act on Jupyter's origin: its cookies, its storage, its login, its workers
    "set-cookie",
    "set-cookie2",
    "clear-site-data",
    "www-authenticate",
    "service-worker-allowed",
    "strict-transport-security",
    "public-key-pins",
    "alt-svc",
    "nel",
    "report-to",
    "reporting-endpoints",
    "origin-agent-cluster",
    "set-login",
    "speculation-rules",
    # is kept by browsers for the origin: what they send to it, sessions, dictionaries
    "accept-ch",
    "accept-ch-lifetime",
    "critical-ch",
    "expect-ct",
    "use-as-dictionary",
    "sec-session-challenge",
    "sec-session-registration",
    "secure-session-challenge",
    "secure-session-registration",
    "activate-storage-access",
    "shared-storage-write",
    "attribution-reporting-register-source",
    "attribution-reporting-register-trigger",
    "observe-browsing-topics",
    # a page with a sandboxing policy that also asks for this is refused by browsers
    "cross-origin-opener-policy",
    # set anew
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-max-age",
    "location",
    "referrer-policy",
    "server",
    "date",
}


def for_sandbox(headers: HTTPHeaders, prefix: str, scheme: str, port: int) -> list[tuple[str, str]]:
    """Return the headers of a browser's request as a port of a sandbox gets them.

    The program there sees a request to ``localhost``, as if the browser ran beside it, and learns
    from ``X-Forwarded-*`` what is in the address bar.
    """
    passed = [(name, value) for name, value in headers.get_all() if _passes(name, _NOT_TO_SANDBOX)]
    passed.append(("X-Forwarded-Proto", scheme))
    passed.append(("X-Forwarded-Prefix", prefix))
    if host := headers.get("Host"):
        passed.append(("X-Forwarded-Host", host))
    if "Origin" in headers:
        passed.append(("Origin", f"http://localhost:{port}"))
    return passed


def for_browser(
    headers: Iterable[tuple[str, str]], prefix: str, hosts: frozenset[str]
) -> list[tuple[str, str]]:
    """Return the headers of a port's answer as the browser gets them; always with the policy.

    ``hosts`` are the names under which the program knows itself, for ``Location``.
    """
    given = list(headers)
    passed = [(name, value) for name, value in given if _passes(name, _NOT_TO_BROWSER)]
    passed += [
        ("Location", move_location(value, prefix, hosts))
        for name, value in given
        if name.lower() == "location"
    ]
    passed.append(("Content-Security-Policy", SANDBOX_POLICY))
    passed.append(("Referrer-Policy", "no-referrer"))
    return passed


def move_location(location: str, prefix: str, hosts: frozenset[str]) -> str:
    """Return where a redirect of the program leads below ``prefix``.

    Addresses of other hosts stay as they are.
    """
    parts = urlsplit(location)
    if parts.netloc:
        if parts.netloc not in hosts:
            return location
        location = parts._replace(scheme="", netloc="").geturl() or "/"
    elif parts.scheme:
        return location
    if not location.startswith("/") or (prefix and location.startswith(prefix + "/")):
        return location
    # Without leading slashes: "//host" would be another host.
    return f"{prefix}/{location.lstrip('/')}"


def _passes(name: str, refused: frozenset[str]) -> bool:
    return name.lower() not in refused
