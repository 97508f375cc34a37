"""Entries: the one-time permission with which a browser comes to the host name of a port."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.server.ports.grants import Grant

ENTRY_SECONDS: Final = 60.0
MAX_ENTRIES: Final = 256
_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Entry:
    """Gives the browser that comes with its token a cookie for ``grant``, and sends it on."""

    grant: Grant
    target: str
    """The path and query to send the browser to."""
    made_at: float


class Entries:
    """The entries that were not used yet; they are kept in memory only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    def make(self, grant: Grant, target: str) -> str:
        """Return a token; the oldest one ends if there are too many."""
        token = secrets.token_urlsafe(_BYTES)
        self._entries[token] = Entry(grant, target, self._clock())
        while len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)
        return token

    def use(self, token: str, sandbox_id: str, port: int) -> Entry | None:
        """Return the entry and forget it; ``None`` if it is used, too old or for another port."""
        entry = self._entries.pop(token, None)
        if entry is None or self._clock() - entry.made_at > ENTRY_SECONDS:
            return None
        is_own = (entry.grant.sandbox_id, entry.grant.port) == (sandbox_id, port)
        return entry if is_own else None
