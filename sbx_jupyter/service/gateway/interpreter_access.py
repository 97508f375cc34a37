"""Access to the code interpreter of a secured sandbox (interface 5.1 and appendix E, item 19).

Clients send the access token to ``/execute`` only. The other routes are open to everybody who knows
the sandbox's id, so what they can cost is bounded here: the size of a body, and calls per second.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sbx_jupyter.protocol import access
from sbx_jupyter.service.gateway.error_responses import ErrorResponse, GatewayError
from sbx_jupyter.service.sandbox_access import UNAUTHORIZED

if TYPE_CHECKING:
    from sbx_jupyter.engine.state.rows import SandboxRow
    from sbx_jupyter.protocol.access import Route
    from sbx_jupyter.service.context import RoutedRequest
    from sbx_jupyter.service.open_call_limits import OpenCallLimits

MAX_OPEN_BODY: Final = 64 * 1024
TOO_LARGE: Final = "The body is too large for a request without an access token"
TOO_MANY_CALLS: Final = "Too many calls without an access token"

_COST_OF_A_CHANGE: Final = 4
# Without percent signs and dots, which a server inside may resolve to another path.
_OPEN: Final = (
    ("GET", re.compile(r"/health")),
    ("GET", re.compile(r"/contexts")),
    ("POST", re.compile(r"/contexts")),
    ("DELETE", re.compile(r"/contexts/[A-Za-z0-9_-]+")),
    ("POST", re.compile(r"/contexts/[A-Za-z0-9_-]+/restart")),
)


def check_interpreter_access(
    limits: OpenCallLimits, request: RoutedRequest, route: Route, row: SandboxRow
) -> None:
    """Check a request to the interpreter's port, and bound its body if it carries no token.

    Raises ``GatewayError``: 401 where the token is needed, 413 for a large body, 429 for too many
    calls.
    """
    if access.is_granted(request.headers.get(access.ACCESS_TOKEN_HEADER), row.access_token):
        return
    if not _is_open(request):
        raise GatewayError(ErrorResponse.for_route(401, route, UNAUTHORIZED))
    if _stated_size(request) > MAX_OPEN_BODY:
        raise GatewayError(ErrorResponse.for_route(413, route, TOO_LARGE))
    cost = 1 if request.method == "GET" else _COST_OF_A_CHANGE
    if not limits.try_call(route.sandbox_id, cost):
        raise GatewayError(ErrorResponse.for_route(429, route, TOO_MANY_CALLS))
    request.max_body = MAX_OPEN_BODY


def _is_open(request: RoutedRequest) -> bool:
    if "Upgrade" in request.headers:
        return False
    return any(request.method == method and path.fullmatch(request.path) for method, path in _OPEN)


def _stated_size(request: RoutedRequest) -> int:
    text = request.headers.get("Content-Length", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else MAX_OPEN_BODY + 1
