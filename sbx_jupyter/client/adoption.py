"""Takes sandboxes that other libraries opened, such as the ``e2b`` package, by what they offer."""

from __future__ import annotations

from typing import Any, Protocol, cast

from sbx_jupyter.client.connection.config import SHARED_HOST_DOMAINS, ConnectionConfig
from sbx_jupyter.client.sandbox import AsyncSandbox
from sbx_jupyter.client.sync_sandbox import Sandbox
from sbx_jupyter.errors import InvalidArgumentError


class ForeignSandbox(Protocol):
    """The attributes of an object that ``adopt`` takes."""

    @property
    def sandbox_id(self) -> str: ...

    @property
    def connection_config(self) -> Any:
        """An object with ``api_url`` and ``api_key``."""
        ...


def is_sandbox(value: object) -> bool:
    """Whether ``adopt`` takes a value."""
    if isinstance(value, Sandbox | AsyncSandbox):
        return True
    if isinstance(value, type):
        return False
    foreign = cast("Any", value)
    return isinstance(getattr(foreign, "sandbox_id", None), str) and isinstance(
        getattr(getattr(foreign, "connection_config", None), "api_key", None), str
    )


def adopt(value: object) -> Sandbox:
    """The same sandbox as a ``Sandbox`` of ours.

    Takes ours, blocking or not, and any object with a ``sandbox_id`` and a ``connection_config``
    with ``api_url`` and ``api_key``, as the sandboxes of ``e2b`` are. Such a one is connected to,
    which resumes it if it is paused. Raises ``InvalidArgumentError`` for anything else, and
    ``NotFoundError`` for one that has ended.
    """
    if isinstance(value, Sandbox):
        return value
    if isinstance(value, AsyncSandbox):
        return Sandbox.of(value)
    if not is_sandbox(value):
        raise InvalidArgumentError(f"a {type(value).__name__} is not a sandbox")
    foreign = cast("Any", value)
    return Sandbox.connect(foreign.sandbox_id, config=_config_of(foreign))


def _config_of(foreign: Any) -> ConnectionConfig:
    config = foreign.connection_config
    sandbox_id = str(foreign.sandbox_id)
    domain = getattr(foreign, "sandbox_domain", None) or getattr(config, "domain", None)
    # A fixed address serves all sandboxes: neither the id nor a shared domain is part of it.
    address = getattr(foreign, "envd_api_url", None)
    is_shared = domain in SHARED_HOST_DOMAINS and address == f"https://sandbox.{domain}"
    is_fixed = isinstance(address, str) and sandbox_id not in address and not is_shared
    return ConnectionConfig(
        api_url=str(config.api_url),
        api_key=str(config.api_key),
        sandbox_url=address if is_fixed else None,
        domain=None if is_fixed else domain,
    )
