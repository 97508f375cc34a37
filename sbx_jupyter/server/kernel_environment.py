"""The variables with which programs in kernels and terminals use this server's connection."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sbx_jupyter.client.connection import bundled
from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.client.connection.environment import NAMES, PORT_URL_VARIABLE, client_environment
from sbx_jupyter.errors import SbxError
from sbx_jupyter.server.deployments.relay import Relay
from sbx_jupyter.server.deployments.session_key import SessionKey

if TYPE_CHECKING:
    from logging import Logger

    from sbx_jupyter.server.deployments.connection import Connection
    from sbx_jupyter.server.deployments.local_engine import LocalEngine


class KernelEnvironment:
    """Keeps the server's environment, which kernels and terminals inherit, on one connection.

    For the local engine that is the address of a relay and the key of this session; both exist
    before an engine does, and no engine starts until somebody connects. For another deployment it
    is what is configured for it.
    """

    def __init__(self, engine: LocalEngine, *, log: Logger, owner: str = "") -> None:
        """``owner``: whose sandboxes kernels may use; without one, all of the engine."""
        self._owner = owner
        self._engine = engine
        self._log = log
        self._relay: Relay | None = None
        self._key: SessionKey | None = None
        self._former: dict[str, str | None] = {}
        self._ports_url = ""

    def apply(self, connection: Connection) -> None:
        """Name ``connection`` to kernels that start from now on.

        Does nothing if the user's own environment names a deployment.
        """
        self.restore()
        if self._ports_url:
            self._set(PORT_URL_VARIABLE, self._ports_url)
        if named := self._named_by_user(connection):
            self._log.info("kernels keep the sandboxes that %s names", named)
            return
        try:
            config = self._local() if connection.named.is_local else connection.named.resolve()
        except (SbxError, OSError) as error:
            self._log.warning("kernels get no sandboxes by default: %s", error)
            return
        for name, value in client_environment(config, os.environ).items():
            self._set(name, value)

    def name_ports(self, server_url: str) -> None:
        """Tell kernels where the browser finds ports of sandboxes: below this server's address."""
        # Jupyter's own idea of its address may carry a token, which kernels need not have.
        address = urlsplit(server_url)._replace(query="", fragment="").geturl()
        self._ports_url = f"{address.rstrip('/')}/sbx/port/"
        self._set(PORT_URL_VARIABLE, self._ports_url)

    def _set(self, name: str, value: str) -> None:
        self._former.setdefault(name, os.environ.get(name))
        os.environ[name] = value

    def restore(self) -> None:
        """Restore the former environment."""
        for name, value in self._former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._former.clear()

    def close(self) -> None:
        """Restore the environment, revoke the key and close the address."""
        self.restore()
        if self._key is not None:
            self._key.revoke()
        if self._relay is not None:
            self._relay.stop()

    def _named_by_user(self, connection: Connection) -> str | None:
        """The variable with which the user's environment chose a deployment, if there is one."""
        named = [name for name in NAMES if os.environ.get(name)]
        if named == ["E2B_API_KEY"] and not connection.named.is_local:
            return None  # it is the key of the deployment that is configured
        return named[0] if named else None

    def _local(self) -> ConnectionConfig:
        bundled.check_platform()
        if self._relay is None or self._key is None:
            self._key = SessionKey(self._engine.data_dir, self._owner)
            self._relay = Relay(self._find, log=self._log)
            self._relay.start()
        url = self._relay.url
        return ConnectionConfig(api_url=url, api_key=self._key.value, sandbox_url=url)

    def _find(self, fresh: bool) -> tuple[str, int]:
        """Register the key and return the engine's address; blocks, and may start the engine."""
        assert self._key is not None
        self._key.register()
        return self._engine.address(fresh=fresh)


def public_url_of(serverapp: Any) -> str:
    """The server's address for browsers; below JupyterHub, perhaps only the path on it."""
    if "JUPYTERHUB_SERVICE_PREFIX" in os.environ and not serverapp.custom_display_url:
        return os.environ.get("JUPYTERHUB_PUBLIC_URL", "") or serverapp.base_url
    return serverapp.public_url
