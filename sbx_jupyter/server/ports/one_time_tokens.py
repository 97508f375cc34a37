"""One-time tokens with which a browser first comes to the host name of a port."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.server.ports.grants import Grant

TOKEN_SECONDS: Final = 60.0
MAX_TOKENS: Final = 256
_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class OneTimeToken:
    """Gives the browser that comes with it a cookie for ``grant``, and sends it on."""

    grant: Grant
    target: str
    """The path and query to send the browser to."""
    made_at: float


class OneTimeTokens:
    """The tokens that were not used yet; they are kept in memory only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unused: OrderedDict[str, OneTimeToken] = OrderedDict()

    def make(self, grant: Grant, target: str) -> str:
        """Return a token; the oldest one ends if there are too many."""
        token = secrets.token_urlsafe(_BYTES)
        self._unused[token] = OneTimeToken(grant, target, self._clock())
        while len(self._unused) > MAX_TOKENS:
            self._unused.popitem(last=False)
        return token

    def use(self, token: str, sandbox_id: str, port: int) -> OneTimeToken | None:
        """Return it and forget it; ``None`` if it was used, is too old or for another port."""
        found = self._unused.pop(token, None)
        if found is None or self._clock() - found.made_at > TOKEN_SECONDS:
            return None
        is_own = (found.grant.sandbox_id, found.grant.port) == (sandbox_id, port)
        return found if is_own else None
