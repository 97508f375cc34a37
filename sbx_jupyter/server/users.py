"""Gives each user of this server their own sandboxes, where it has several identities.

A key of the engine's stands for each user, so the engine itself keeps their sandboxes apart.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from jupyter_server.auth.identity import (
    IdentityProvider,
    LegacyIdentityProvider,
    PasswordIdentityProvider,
)

from sbx_jupyter.errors import PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jupyter_server.auth import User

    from sbx_jupyter.server.deployments.connections import Connections

OWNER_OF_KERNELS: Final = "(kernels)"
"""Owns what kernels make where no hub says whose server it is."""

MAX_USERS: Final = 256

_ONE_IDENTITY: Final = (IdentityProvider, LegacyIdentityProvider, PasswordIdentityProvider)
"""Providers that know no users: each browser gets a name at random."""


def has_several_identities(provider: IdentityProvider) -> bool:
    """Whether the users of a server have names that stay, so that each can have sandboxes."""
    return type(provider) not in _ONE_IDENTITY


def owner_of_server() -> str:
    """The user whose server a hub says that it is, else an empty text."""
    return os.environ.get("JUPYTERHUB_USER", "")


class UserConnections:
    """The connections of each user, opened when the user first asks for something."""

    def __init__(
        self, open_for: Callable[[str, bool], Connections], sees_all: Collection[str]
    ) -> None:
        """``open_for`` makes the connections of a user, and is told whether they see everything.

        ``sees_all`` names those who do; the owner of the server is one of them.
        """
        self._open_for = open_for
        self._sees_all = frozenset({*sees_all, owner_of_server()} - {""})
        self._connections: OrderedDict[str, Connections] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, user: User | None) -> Connections:
        """The connections of a user who is signed in; raises ``PermissionDeniedError``."""
        if user is None:
            raise PermissionDeniedError("sign in to use sandboxes")
        name = user.username
        found = self._connections.get(name)
        if found is None:
            found = self._connections[name] = self._open_for(name, name in self._sees_all)
            self._close_unused()
        self._connections.move_to_end(name)
        return found

    async def aclose(self) -> None:
        """Close the connections of all users and revoke their keys."""
        await asyncio.gather(
            *self._closing, *(each.aclose() for each in self._connections.values())
        )
        self._connections.clear()

    def _close_unused(self) -> None:
        """Close those that were not used for longest, when there are too many users."""
        while len(self._connections) > MAX_USERS:
            task = asyncio.create_task(self._connections.popitem(last=False)[1].aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
