"""The address and the key of a platform API, given or read from the environment."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sbx_jupyter.client.connection import bundled, tls
from sbx_jupyter.errors import InvalidArgumentError, UnauthenticatedError, UnavailableError
from sbx_jupyter.protocol.access import Route, format_route_host

if TYPE_CHECKING:
    from sbx_jupyter.protocol.locations import ConnectionFile

SHARED_HOST_DOMAINS: Final = frozenset(
    {
        "e2b.app",
        "e2b.dev",
        "e2b.pro",
        "e2b-staging.dev",
        "e2b-tango.dev",
        "e2b-juliett.dev",
        "foxtrot-2.e2b.dev",
    }
)
"""Domains whose ``sandbox.<domain>`` takes runtime calls for every sandbox (interface 2.2)."""


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """The addresses and the key of one deployment; ``repr`` leaves the key out.

    ``request_timeout`` is in seconds; ``attempts`` includes the first one. ``ca_file`` has the
    trusted certificate authorities in PEM form; default: those of ``SSL_CERT_FILE`` and
    ``SSL_CERT_DIR``, else the public ones. Raises ``InvalidArgumentError`` for a malformed address
    or an unusable ``ca_file``.
    """

    api_url: str
    api_key: str = field(repr=False)
    sandbox_url: str | None = None
    domain: str | None = None
    request_timeout: float = 60.0
    attempts: int = 4
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str | None = None

    def __post_init__(self) -> None:
        for url in (self.api_url, self.sandbox_url):
            if url is not None and urlsplit(url).scheme not in ("http", "https"):
                raise InvalidArgumentError(f"{url!r} is not an http or https address")
        if self.ca_file is not None:
            tls.check_ca_file(self.ca_file)

    @classmethod
    def from_env(cls) -> ConnectionConfig:
        """Return the deployment that the environment names, else the user's running engine.

        ``E2B_API_URL``, ``E2B_DOMAIN`` or ``E2B_SANDBOX_URL`` name a deployment, and
        ``E2B_API_KEY`` is the key to it; ``SBX_CA_FILE`` is its ``ca_file``. A key alone names no
        deployment, so that it is never sent off this machine. Raises ``UnavailableError`` when
        nothing is named and no engine runs, ``UnauthenticatedError`` when a deployment is named
        without a key.
        """
        if (named := cls.named_by_environment()) is not None:
            return named
        if (running := bundled.find_engine()) is not None:
            return cls.from_connection_file(running)
        raise UnavailableError("no engine is running, and E2B_API_URL names no deployment")

    @classmethod
    async def default(cls) -> ConnectionConfig:
        """Like ``from_env``, but starts the user's shared engine when none is running."""
        if (named := cls.named_by_environment()) is not None:
            return named
        return cls.from_connection_file(await asyncio.to_thread(bundled.ensure_engine))

    @classmethod
    def named_by_environment(cls) -> ConnectionConfig | None:
        """Return the deployment that the environment names, as ``from_env``; ``None`` for none."""
        return _named_by_environment()

    @classmethod
    def from_connection_file(cls, connection: ConnectionFile) -> ConnectionConfig:
        """Use the engine that wrote ``connection``, at one address for both APIs."""
        return cls(api_url=connection.url, api_key=connection.api_key, sandbox_url=connection.url)

    def runtime_url(self, sandbox_id: str, port: int, domain: str | None = None) -> str:
        """Return the base URL of one port of a sandbox, for requests with routing headers."""
        if self.sandbox_url is not None:
            return self.sandbox_url.rstrip("/")
        domain = domain or self.domain
        if domain is None:
            return self.api_url.rstrip("/")
        if domain in SHARED_HOST_DOMAINS:
            return f"https://sandbox.{domain}"
        return f"https://{format_route_host(Route(sandbox_id, port), domain)}"

    def port_host(self, sandbox_id: str, port: int, domain: str | None = None) -> str:
        """Return the host name under which a browser reaches one port of a sandbox."""
        domain = domain or self.domain
        if domain is None:
            parts = urlsplit(self.sandbox_url or self.api_url)
            name = "localhost" if is_loopback(parts.hostname or "") else parts.hostname
            domain = f"{name}:{parts.port}" if parts.port else str(name)
        return format_route_host(Route(sandbox_id, port), domain)


def is_loopback(host: str) -> bool:
    """Whether ``host`` is a name or an address of the loopback interface."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _named_by_environment() -> ConnectionConfig | None:
    api_url = os.environ.get("E2B_API_URL") or None
    sandbox_url = os.environ.get("E2B_SANDBOX_URL") or None
    domain = os.environ.get("E2B_DOMAIN") or None
    if api_url is None and domain is None and sandbox_url is None:
        return None
    key = os.environ.get("E2B_API_KEY")
    if not key:
        raise UnauthenticatedError("E2B_API_URL or E2B_DOMAIN is set, but E2B_API_KEY is not")
    if api_url is None:
        api_url = f"https://api.{domain}" if domain else sandbox_url
    return ConnectionConfig(
        api_url=str(api_url),
        api_key=key,
        sandbox_url=sandbox_url,
        domain=domain,
        ca_file=os.environ.get(tls.CA_FILE_VARIABLE) or None,
    )
