"""Finds out what a deployment can do: its version, and which optional routes it lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.client.api.transport import status_error
from sbx_jupyter.protocol.access import API_KEY_HEADER

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from sbx_jupyter.client.api.platform import PlatformClient

PROBE_TIMEOUT: Final = 10.0
_NOBODY: Final = "i" + "0" * 20
"""A sandbox id that no deployment gives out."""

_ENGINE_ONLY: Final[tuple[str, ...]] = (
    "rename",
    "operations",
    "diff",
    "disk",
    "processes",
    "ports",
    "catalogue",
)
_PROBES: Final[Mapping[str, tuple[str, str]]] = {
    "snapshots": ("GET", "/snapshots?limit=1"),
    "fork": ("POST", f"/sandboxes/{_NOBODY}/fork"),
    "pause": ("POST", f"/sandboxes/{_NOBODY}/pause"),
    "history": ("GET", f"/sandboxes/{_NOBODY}/metrics"),
    "logs": ("GET", f"/v2/sandboxes/{_NOBODY}/logs"),
    "templates": ("GET", "/templates"),
    "volumes": ("GET", "/volumes"),
    "secrets": ("GET", "/secrets"),
}
"""Requests that change nothing, by the capability that they need."""

_UNKNOWN_ROUTE: Final = f"/sandboxes/{_NOBODY}/no-such-route"
_NO_ROUTE: Final = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The optional features of a deployment, as it describes itself.

    ``missing`` maps a capability to a sentence that says why it is not there. ``engine`` is the
    answer of ``GET /engine/info``, ``None`` for other implementations of the interface.
    """

    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    engine: Mapping[str, Any] | None = None

    @property
    def version(self) -> str | None:
        """The engine's version; ``None`` for other implementations."""
        return None if self.engine is None else str(self.engine.get("version") or "") or None


async def find_capabilities(platform: PlatformClient) -> Capabilities:
    """Ask a deployment what it can do.

    Raises ``UnauthenticatedError`` or ``PermissionDeniedError`` when it refuses the key,
    ``UnavailableError`` or ``DeadlineExceededError`` when it does not answer.
    """
    listing = await _ask(platform, "GET", "/v2/sandboxes?limit=1")
    if listing.status_code >= 400:
        raise status_error(listing.content, listing.status_code)
    engine = await _engine_info(platform)
    if engine is not None:
        return Capabilities(engine=engine)
    unknown = _trace(await _ask(platform, "GET", _UNKNOWN_ROUTE))
    missing: dict[str, str] = dict.fromkeys(_ENGINE_ONLY, "only the engine of sbx-jupyter has this")
    for name, (method, path) in _PROBES.items():
        answer = await _ask(platform, method, path)
        if answer.status_code in _NO_ROUTE and not _is_about_sandbox(path, answer, unknown):
            missing[name] = "this deployment has no such route"
    return Capabilities(missing=missing)


def explain_versions(client: str, engine: str | None) -> str | None:
    """Say why an engine's version does not fit the client's; ``None`` when it does.

    Versions fit if they agree up to the first number that is not zero, as in semantic versioning.
    """
    ours, theirs = _breaking_part(client), _breaking_part(engine or "")
    if ours is None or theirs is None or ours == theirs:
        return None
    return f"the engine has version {engine}, this client {client}"


def _breaking_part(version: str) -> tuple[int, ...] | None:
    """The numbers up to the first that is not zero; ``None`` for a checkout or no version."""
    numbers: list[int] = []
    for part in version.partition("+")[0].split("."):
        if not part.isdigit():
            return None
        numbers.append(int(part))
        if numbers[-1]:
            return tuple(numbers)
    return None


async def _engine_info(platform: PlatformClient) -> dict[str, Any] | None:
    answer = await _ask(platform, "GET", "/engine/info")
    if answer.status_code != 200:
        return None
    try:
        return msgspec.json.decode(answer.content, type=dict[str, Any])
    except msgspec.DecodeError:
        return None


async def _ask(platform: PlatformClient, method: str, path: str) -> httpx.Response:
    headers = {API_KEY_HEADER: platform.config.api_key}
    content = None
    if method == "POST":
        headers["Content-Type"] = "application/json"
        content = b"{}"
    return await platform.transport.request(
        method,
        platform.config.api_url.rstrip("/") + path,
        headers=headers,
        content=content,
        timeout=PROBE_TIMEOUT,
    )


def _is_about_sandbox(path: str, answer: httpx.Response, unknown: str) -> bool:
    """Whether a 404 is about the sandbox in ``path``; ``unknown`` is the trace of no route."""
    if _NOBODY not in path or answer.status_code != 404:
        return False
    trace = _trace(answer)
    return _NOBODY in trace or (trace != "" and trace != unknown)


def _trace(answer: httpx.Response) -> str:
    """The message of an answer without the path, to compare the answers of two routes."""
    return _message(answer).replace(answer.request.url.path, "")


def _message(answer: httpx.Response) -> str:
    """The message of a JSON error; empty for other bodies, such as the 404 page of a web server."""
    try:
        body = msgspec.json.decode(answer.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return str(body.get("message", ""))
