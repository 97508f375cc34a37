"""Finds the sandbox and port of a request, by its host or its headers (interface 2.3)."""

from __future__ import annotations

import functools
import ipaddress
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol import access
from sbx_jupyter.protocol.access import Route

if TYPE_CHECKING:
    from tornado.httputil import HTTPHeaders


class RoutingError(InvalidArgumentError):
    """The host or headers name no valid sandbox; the message is the response (interface 2.4)."""


_RUNTIME_PATHS: Final = ("/filesystem.Filesystem/", "/process.Process/", "/files", "/envs")


def host_name(host: str) -> str:
    """The name or address in a ``Host`` header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


@functools.lru_cache(maxsize=256)
def is_shared(name: str) -> bool:
    """Whether a host serves all sandboxes: ``localhost``, an address, ``sandbox.<anything>``."""
    if name == "localhost" or name.startswith("sandbox."):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def find_route(headers: HTTPHeaders, domain: str | None = None) -> Route | None:
    """The route of a request, or ``None`` when it goes to the engine itself.

    ``domain`` is that of sandbox host names, if there is one. Raises ``RoutingError`` with the
    texts of interface 2.4.
    """
    name = host_name(headers.get("Host") or "").lower()
    if is_shared(name):
        return _by_headers(headers)
    if domain and name == f"api.{host_name(domain).lower()}":
        return None  # where clients look for the platform API, also before they have a key
    try:
        return access.parse_route_host(name)
    except InvalidArgumentError as error:
        if headers.get(access.API_KEY_HEADER) or headers.get("Authorization"):
            return None  # the platform API under another host name
        raise RoutingError(error.message) from None


def needs_sandbox(path: str) -> bool:
    """Whether a path exists only in the runtime API of a sandbox."""
    return path == "/metrics" or path.startswith(_RUNTIME_PATHS)


def _by_headers(headers: HTTPHeaders) -> Route | None:
    sandbox_id = headers.get(access.SANDBOX_ID_HEADER)
    port = headers.get(access.SANDBOX_PORT_HEADER)
    if not sandbox_id and not port:
        return None
    if not sandbox_id or not port:
        raise RoutingError("missing header")
    try:
        return Route(access.parse_sandbox_id(sandbox_id), access.parse_port(port))
    except InvalidArgumentError as error:
        raise RoutingError(error.message) from None
