"""Decides who may use which port of a sandbox, and at which names, for all handlers of ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from sbx_jupyter.errors import see
from sbx_jupyter.server.ports.grants import Grants
from sbx_jupyter.server.ports.hosts import PortHosts
from sbx_jupyter.server.ports.one_time_tokens import OneTimeTokens
from sbx_jupyter.server.ports.tunnels import Tunnels

if TYPE_CHECKING:
    from logging import Logger


class PortMode(TypedDict):
    """Where pages of ports are: below a path, or at host names of the pattern ``hosts``."""

    mode: Literal["path", "host"]
    hosts: NotRequired[str]


class PortAccess:
    """The grants and the host names of the ports of one server."""

    def __init__(self, pattern: str, *, may_share_domain: bool, log: Logger) -> None:
        """``pattern`` of the host names, empty for none; raises ``InvalidArgumentError``."""
        self.grants = Grants()
        self.one_time_tokens = OneTimeTokens()
        self.tunnels = Tunnels()
        self.hosts = PortHosts(pattern) if pattern else None
        self._may_share_domain = may_share_domain
        self._log = log

    def hosts_for(self, host: str) -> PortHosts | None:
        """The host names for a browser that reaches this server as ``host``.

        ``None`` if there are none, or if pages there could set cookies for this server.
        """
        hosts = self.hosts
        if hosts is None or self._may_share_domain or not hosts.is_beside(host):
            return hosts
        self._log.warning(
            "c.SbxExtension.port_hosts is not used: pages there could set cookies for %s"
            f"{see('ports')}",
            host,
        )
        return None

    def describe(self) -> PortMode:
        """The mode of the addresses of ports for front ends: ``host`` or ``path``."""
        if self.hosts is None:
            return {"mode": "path"}
        return {"mode": "host", "hosts": self.hosts.pattern}
