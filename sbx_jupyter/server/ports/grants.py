"""Grants: short-lived permissions for one user, sandbox and port, carried in the path of a page."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from jupyter_server.auth import User

IDLE_SECONDS: Final = 15 * 60.0
"""A grant ends this long after its last use."""

LONGEST_SECONDS: Final = 12 * 3600.0
MAX_GRANTS: Final = 1024
_BYTES: Final = 24


@dataclass(slots=True)
class Grant:
    """Lets the bearer of its token use one port of one sandbox in the name of ``user``."""

    token: str
    user: User
    sandbox_id: str
    port: int
    made_at: float
    used_at: float
    tunnels: int = 0
    """Open WebSockets; while there are some, the grant is in use."""

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Keep the grant in use, except beyond ``LONGEST_SECONDS``."""
        self.tunnels += 1
        try:
            yield
        finally:
            self.tunnels -= 1


class Grants:
    """The grants of one server; they are kept in memory only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._grants: OrderedDict[str, Grant] = OrderedDict()

    def give(self, user: User, sandbox_id: str, port: int) -> Grant:
        """Make a grant; the one that was unused longest ends if there are too many."""
        now = self._clock()
        grant = Grant(secrets.token_urlsafe(_BYTES), user, sandbox_id, port, now, now)
        self._grants[grant.token] = grant
        while len(self._grants) > MAX_GRANTS:
            self._grants.popitem(last=False)
        return grant

    def find(self, token: str, sandbox_id: str, port: int) -> Grant | None:
        """Return a grant that is valid for this sandbox and port, and note that it was used."""
        grant = self._grants.get(token)
        if grant is None:
            return None
        now = self._clock()
        is_unused = not grant.tunnels and now - grant.used_at > IDLE_SECONDS
        if is_unused or now - grant.made_at > LONGEST_SECONDS:
            del self._grants[token]
            return None
        if (grant.sandbox_id, grant.port) != (sandbox_id, port):
            return None
        grant.used_at = now
        self._grants.move_to_end(token)
        return grant
