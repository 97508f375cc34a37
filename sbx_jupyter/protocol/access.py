"""Routes and credentials: headers, host names, tokens and signatures (interface 2 and 4.2)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import Final, NamedTuple

from sbx_jupyter.errors import InvalidArgumentError, PermissionDeniedError

API_KEY_HEADER: Final = "X-API-KEY"
ACCESS_TOKEN_HEADER: Final = "X-Access-Token"
TRAFFIC_TOKEN_HEADER: Final = "E2B-Traffic-Access-Token"
SANDBOX_ID_HEADER: Final = "E2b-Sandbox-Id"
SANDBOX_PORT_HEADER: Final = "E2b-Sandbox-Port"
REPLAY_FROM_HEADER: Final = "Sbx-Replay-From"
"""An addition: replay the output of a terminal from this sequence number, and number it."""
USAGE_HEADER: Final = "Sbx-Usage"
"""An addition: run code, and end the answer with a line that says what it used (``CodeUsage``)."""
NOTEBOOK_HEADER: Final = "Sbx-For-Notebook"
"""An addition: results as a notebook shows them, tracebacks with colours, no JSON beside text."""
PORT_UPGRADE: Final = "sbx-port"
"""An addition: with this value of ``Upgrade``, the gateway joins a client to a port as it is."""
PORT_TUNNELS: Final = "port-tunnels"
"""The feature in ``GET /engine/info`` of an engine that does so."""

_TOKEN_NAMES: Final = {
    ACCESS_TOKEN_HEADER: "access token",
    TRAFFIC_TOKEN_HEADER: "traffic access token",
}
_LONGEST_PORT: Final = 16
_ID_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_SANDBOX_ID: Final = re.compile(r"[a-z0-9]+\Z")
_API_KEY: Final = re.compile(r"e2b_[0-9a-f]+\Z")


class Route(NamedTuple):
    """One port of one sandbox."""

    sandbox_id: str
    port: int


def new_sandbox_id() -> str:
    """``i`` and 20 characters of ``[a-z0-9]`` (interface 1.0.5)."""
    return "i" + random_id(20)


def random_id(size: int) -> str:
    """``size`` random characters of ``[a-z0-9]``."""
    number = secrets.randbelow(len(_ID_ALPHABET) ** size)  # one call of the kernel, not ``size``
    characters: list[str] = []
    for _ in range(size):
        number, index = divmod(number, len(_ID_ALPHABET))
        characters.append(_ID_ALPHABET[index])
    return "".join(characters)


def new_api_key() -> str:
    return "e2b_" + secrets.token_hex(20)


def new_access_token() -> str:
    return secrets.token_hex(32)


def is_api_key(text: str) -> bool:
    return _API_KEY.match(text) is not None


def parse_sandbox_id(text: str) -> str:
    """The id in ``<sandboxID>[-<clientID>]``; raises ``InvalidArgumentError`` for anything else."""
    parts = text.split("-")
    if len(parts) > 2 or not all(_SANDBOX_ID.match(part) for part in parts):
        raise InvalidArgumentError("Invalid sandbox ID")
    return parts[0]


def parse_port(text: str) -> int:
    """A TCP port; raises ``InvalidArgumentError``."""
    # A number of thousands of digits would take long to read.
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_PORT:
        raise InvalidArgumentError("Invalid sandbox port")
    if not 0 < (port := int(text)) < 65536:
        raise InvalidArgumentError("Invalid sandbox port")
    return port


def parse_route_host(host: str) -> Route:
    """The route in ``{port}-{sandboxID}[-{clientID}].<domain>`` (interface 2.3).

    Raises ``InvalidArgumentError`` with the texts of interface 2.4.
    """
    label, dot, _ = host.partition(".")
    port, dash, sandbox_id = label.partition("-")
    if not dot or not dash:
        raise InvalidArgumentError("Invalid host")
    return Route(parse_sandbox_id(sandbox_id), parse_port(port))


def format_route_host(route: Route, domain: str) -> str:
    """``{port}-{sandboxID}.<domain>``."""
    return f"{route.port}-{route.sandbox_id}.{domain}"


def sign(path: str, operation: str, username: str, token: str, expiration: int | None) -> str:
    """The signature of a file URL (interface 4.2).

    ``path`` is the raw query value, ``operation`` is ``read`` or ``write``, ``expiration`` unix
    seconds or ``None``.
    """
    parts = [path, operation, username, token]
    if expiration is not None:
        parts.append(str(expiration))
    digest = hashlib.sha256(":".join(parts).encode()).digest()
    return "v1_" + base64.b64encode(digest).rstrip(b"=").decode()


def matches(given: str, expected: str) -> bool:
    """Compare two credentials in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def is_granted(given: str | None, token: str | None) -> bool:
    """Whether a request that carries ``given`` may pass; everyone may if ``token`` is ``None``."""
    return token is None or (given is not None and given != "" and matches(given, token))


def check_header(header: str, given: str | None, token: str | None) -> None:
    """Check the access token or traffic token that a request carries in ``header``.

    Raises ``PermissionDeniedError`` with the texts of interface 2.4.
    """
    if is_granted(given, token):
        return
    problem = f"Provided token in header '{header.lower()}' is invalid"
    if not given:
        problem = f"Token header '{header.lower()}' is missing"
    raise PermissionDeniedError(f"Sandbox is secured with {_TOKEN_NAMES[header]}. {problem}")
