"""What front ends read about a connection: its state, what to do about it, the isolation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbx_jupyter.client.connection.named_connections import LEGACY
from sbx_jupyter.errors import PermissionDeniedError, UnauthenticatedError, see

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbx_jupyter.client.connection.named_connections import NamedConnection
    from sbx_jupyter.errors import SbxError


def state_after(problem: SbxError) -> str:
    """The state of a connection whose deployment could not be asked what it can do."""
    refused = isinstance(problem, UnauthenticatedError | PermissionDeniedError)
    return "unauthorized" if refused else "unreachable"


def remedy_for(named: NamedConnection, state: str) -> str | None:
    """What the user can do about a state; ``None`` where nothing is wrong."""
    if state == "incompatible":
        if named.is_local:
            return (
                "Run `jupyter sbx stop`; it ends all sandboxes. The next call starts a new engine"
                f"{see('upgrade')}."
            )
        return f"Install the same version of sbx-jupyter on both sides{see('upgrade')}."
    if named.is_local:
        return {
            "unauthorized": "Restart the Jupyter server, so that it reads the engine's key again"
            f"{see('connections')}.",
            "unreachable": "Run `jupyter sbx doctor` to see what this machine lacks"
            f"{see('containers')}.",
        }.get(state)
    setting, url = f"c.SbxExtension.connections['{named.name}']", "its api_url"
    if named.name == LEGACY:
        setting, url = "c.SbxExtension.api_key (or E2B_API_KEY)", "c.SbxExtension.api_url"
    return {
        "unauthorized": f"Set the key of this deployment in {setting}{see('connections')}.",
        "unreachable": f"Check {url} and the network of the Jupyter server{see('connections')}.",
    }.get(state)


def isolation_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """The isolation report of an engine, with the tier in use and the configured limits.

    ``tier`` may be weaker than ``best_tier`` by the engine's settings. ``amounts`` are the limits;
    the report says what enforces them.
    """
    report = dict(described.get("isolation") or {})
    best = report.get("tier")
    tier = described.get("tier", best)
    return {
        **report,
        "tier": tier,
        "best_tier": best,
        "network": described.get("network"),
        "amounts": described.get("limits") or {},
    }
