"""Finds the port of a sandbox behind its deployment, and waits for a program that starts."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sbx_jupyter.client.connection import tls
from sbx_jupyter.errors import PermissionDeniedError
from sbx_jupyter.protocol import access
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT, RUNTIME_PORT

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from sbx_jupyter.client.api.runtime import RuntimeClient

START_PATIENCE: Final = 10.0
"""Seconds for which a request waits until a program listens on the port."""

CONNECT_SECONDS: Final = 10.0
"""Seconds for a connection to the deployment, and for its first answer."""

_PAUSE: Final = 0.2
_OWN_PORTS: Final = (RUNTIME_PORT, INTERPRETER_PORT)


@dataclass(frozen=True, slots=True)
class Upstream:
    """One port of one sandbox at its deployment."""

    runtime: RuntimeClient
    port: int
    has_tunnels: bool = False
    """Whether the deployment joins a connection to the port as it is."""

    @property
    def url(self) -> str:
        """The address, without a path."""
        return self.runtime.url("", self.port)

    @property
    def host(self) -> str | None:
        """The ``Host`` for the program; ``None`` where the host name says which sandbox it is."""
        name = urlsplit(self.url).hostname or ""
        return None if name.startswith(f"{self.port}-") else f"localhost:{self.port}"

    def endpoint(self) -> tuple[str, int, ssl.SSLContext | None]:
        """The host, the port and the TLS settings of the deployment, to connect to it."""
        parts = urlsplit(self.url)
        context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            context = tls.create_context(self.runtime.transport.config.ca_file)
        return parts.hostname or "", parts.port or (443 if context else 80), context

    def routing(self) -> list[tuple[str, str]]:
        """The headers that lead to the sandbox; no access token, which the program would see."""
        headers = [
            (access.SANDBOX_ID_HEADER, self.runtime.sandbox_id),
            (access.SANDBOX_PORT_HEADER, str(self.port)),
        ]
        return headers if self.host is None else [*headers, ("Host", self.host)]


def check_port(port: int) -> None:
    """Raise ``PermissionDeniedError`` for a port of the interface itself."""
    if port in _OWN_PORTS:
        raise PermissionDeniedError(f"port {port} of a sandbox is not served to browsers")


async def attempts() -> AsyncIterator[bool]:
    """Yield for each attempt to reach a program that may be starting; true for the last one."""
    deadline = time.monotonic() + START_PATIENCE
    while time.monotonic() < deadline:
        yield False
        await asyncio.sleep(_PAUSE)
    yield True


def is_closed_port(status: int, body: bytes) -> bool:
    """Whether an answer of the deployment says that nothing listens on the port yet."""
    return status == 502 and b"port is not open" in body
