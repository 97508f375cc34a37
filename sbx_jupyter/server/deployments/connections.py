"""The connections of this server by name, with one default."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypedDict

from sbx_jupyter.errors import InvalidArgumentError, NotFoundError
from sbx_jupyter.server.deployments.connection_state import (
    ConnectionInfo,  # noqa: TC001 - msgspec reads it
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sbx_jupyter.server.deployments.connection import Connection


class ConnectionList(TypedDict):
    """Every connection, and the name of the one in use."""

    default: str
    connections: list[ConnectionInfo]


class Connections:
    """Holds every connection that is configured; ``default`` is the one in use."""

    def __init__(
        self,
        connections: Mapping[str, Connection],
        default: str,
        *,
        on_default: Callable[[Connection], None] | None = None,
    ) -> None:
        """``on_default`` is called with the default, now and whenever it changes.

        Raises ``InvalidArgumentError`` when ``default`` is not among the connections.
        """
        self._connections = dict(connections)
        if default not in self._connections:
            raise InvalidArgumentError(
                f"there is no connection '{default}'; there are: {', '.join(self._connections)}"
            )
        self._default = default
        self._on_default = on_default
        self._announce()

    @property
    def default(self) -> Connection:
        """The connection for new sandboxes, lists and kernels."""
        return self._connections[self._default]

    def named(self, name: str) -> Connection:
        """Return a connection by name, the default for an empty one; raises ``NotFoundError``."""
        if not name:
            return self.default
        if (found := self._connections.get(name)) is None:
            raise NotFoundError(f"there is no connection '{name}'")
        return found

    def of(self, sandbox_id: str) -> Connection:
        """Return the connection whose deployment has the sandbox.

        That is one that has listed or called it, so that what is open goes on when the user
        chooses another default; else the default.
        """
        candidates = [self.default, *self._connections.values()]
        return next((each for each in candidates if each.knows(sandbox_id)), self.default)

    def use(self, name: str) -> Connection:
        """Make a connection the default, until the server ends; raises ``NotFoundError``."""
        chosen = self.named(name)
        self._default = chosen.named.name
        self._announce()
        return chosen

    def _announce(self) -> None:
        if self._on_default is not None:
            self._on_default(self.default)

    def describe(self) -> ConnectionList:
        """The answer of ``GET sbx/api/connections``; waits for no deployment."""
        return {
            "default": self._default,
            "connections": [each.describe() for each in self._connections.values()],
        }

    def names(self) -> list[str]:
        """The names of all connections, as they were configured."""
        return list(self._connections)

    async def aclose(self) -> None:
        """Close every connection; engines keep running."""
        await asyncio.gather(*(each.aclose() for each in self._connections.values()))
