"""Describes a connection to front ends: its state, what to do about it, the isolation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, Required, TypedDict, cast

from sbx_jupyter.client.connection.named_connections import LEGACY
from sbx_jupyter.errors import PermissionDeniedError, UnauthenticatedError, see

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbx_jupyter.client.connection.named_connections import NamedConnection
    from sbx_jupyter.errors import SbxError


ConnectionState = Literal[
    "stopped", "starting", "ready", "unauthorized", "unreachable", "incompatible"
]


class ConnectionInfo(TypedDict):
    """A deployment under the name that the configuration gives it.

    ``message`` says what is wrong, if something is, and ``remedy`` what the user can do about it;
    ``missing`` has what the deployment cannot do, with the reasons.
    """

    name: str
    kind: Literal["local", "remote"]
    host: str | None
    state: ConnectionState
    message: str | None
    remedy: str | None
    engineVersion: str | None
    missing: dict[str, str]


class MissingPart(TypedDict):
    """A missing part that would make the isolation stronger, and the command that adds it."""

    what: str
    remedy: str
    page: NotRequired[str]


class Isolation(TypedDict, total=False):
    """How an engine isolates sandboxes, as it reports it; newer engines may say more.

    ``tier`` is ``namespaces``, ``landlock`` or ``none``, ``best_tier`` the strongest that the
    machine supports. ``users`` is ``root-mapped``, ``subordinate`` or ``virtual``; ``ids`` is
    ``own`` if each sandbox has host ids of its own, else ``shared``. ``served_by`` says who serves
    clients: ``separate`` (a user that root became), ``root`` or ``user``. ``limits`` says for each
    resource what holds sandboxes to it, ``limit_words`` whether it is limited, watched or not
    limited, ``amounts`` how much each limit allows. ``network`` is ``proxy``, ``full``, ``none`` or
    ``host``; with ``loopback``, sandboxes of the tier ``landlock`` have ports of their own.
    """

    tier: Required[str]
    best_tier: str
    users: str
    ids: str
    served_by: str
    limits: dict[str, str]
    limit_words: dict[str, str]
    amounts: dict[str, float]
    freezer: str
    reflink: bool
    missing: list[MissingPart]
    network: str | None
    loopback: bool


class EngineState(TypedDict):
    """The bundled engine, ``remote`` for another deployment; ``message`` if it has failed."""

    state: Literal["stopped", "starting", "running", "failed", "remote"]
    message: NotRequired[str]


class EngineInfo(TypedDict):
    """The engine of a connection and its isolation; ``host`` is that of a configured deployment."""

    engine: EngineState
    isolation: Isolation | None
    url_kind: Literal["bundled", "configured"]
    host: str | None


def state_after(problem: SbxError) -> ConnectionState:
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


def isolation_of(described: Mapping[str, Any]) -> Isolation:
    """The isolation report of an engine, with the tier in use and the configured limits.

    ``tier`` may be weaker than ``best_tier`` by the engine's settings. ``amounts`` are the limits;
    the report says what enforces them.
    """
    report = dict(described.get("isolation") or {})
    best = report.get("tier")
    tier = described.get("tier", best)
    return cast(
        "Isolation",
        {
            **report,
            "tier": tier,
            "best_tier": best,
            "network": described.get("network"),
            "amounts": described.get("limits") or {},
        },
    )
