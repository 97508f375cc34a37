"""Opens the connections of this server, and those of each user where users are separate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.errors import PermissionDeniedError, see
from sbx_jupyter.server.deployments.connection import Connection
from sbx_jupyter.server.deployments.connections import Connections
from sbx_jupyter.server.deployments.session_key import SessionKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from logging import Logger

    from sbx_jupyter.client.connection.named_connections import NamedConnection
    from sbx_jupyter.server.deployments.connection import SandboxDefaults
    from sbx_jupyter.server.deployments.local_engine import LocalEngine


class Opener:
    """Opens the connections that are configured, with the keys of their users."""

    def __init__(
        self,
        named: Mapping[str, NamedConnection],
        default: str,
        defaults: SandboxDefaults,
        engine: LocalEngine,
        *,
        log: Logger,
    ) -> None:
        """``default`` names the connection to use first, the first of ``named`` if it is empty.

        ``defaults`` are those of new sandboxes.
        """
        self._named = named
        self._default = default
        self._defaults = defaults
        self._engine = engine
        self._log = log

    def open(self, on_default: Callable[[Connection], None] | None) -> Connections:
        """The connections of the server itself.

        Raises ``InvalidArgumentError`` when there is none of the default's name.
        """
        return self._open(self._named, self._default, on_default=on_default)

    def open_for(self, user: str, sees_all: bool) -> Connections:
        """The connections of one user; raises ``PermissionDeniedError`` if there are none."""
        # A deployment sees one key for all users, so others would get what the owner has there.
        offered = {key: each for key, each in self._named.items() if sees_all or each.is_local}
        if not offered:
            raise PermissionDeniedError(
                "sandboxes of this server are for its owner and c.SbxExtension.see_all_users"
                f"{see('several-users')}"
            )
        key = SessionKey(self._engine.data_dir, user, sees_all=sees_all)
        return self._open(offered, self._default if self._default in offered else "", key=key)

    def _open(
        self,
        named: Mapping[str, NamedConnection],
        default: str,
        *,
        key: SessionKey | None = None,
        on_default: Callable[[Connection], None] | None = None,
    ) -> Connections:
        opened = {
            name: Connection(
                each,
                self._defaults,
                log=self._log,
                engine=self._engine if each.is_local else None,
                key=key if each.is_local else None,
            )
            for name, each in named.items()
        }
        return Connections(opened, default or next(iter(named)), on_default=on_default)
