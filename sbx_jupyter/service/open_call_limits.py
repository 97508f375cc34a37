"""Bounds calls to code interpreters without an access token (interface, appendix E, item 19)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

BURST: Final = 400
_PER_SECOND: Final = 40
MAX_BUCKETS: Final = 1024


class OpenCallLimits:
    """Counts the calls without a token to each sandbox's interpreter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    def __len__(self) -> int:
        """For how many sandboxes calls are counted."""
        return len(self._buckets)

    def try_call(self, sandbox_id: str, cost: int) -> bool:
        """Count a call; ``False`` if there were too many of late."""
        if (bucket := self._buckets.get(sandbox_id)) is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._forget_idle()
            bucket = self._buckets[sandbox_id] = TokenBucket(_PER_SECOND, BURST, self._clock)
        return bucket.try_take(cost)

    def _forget_idle(self) -> None:
        self._buckets = {key: one for key, one in self._buckets.items() if not one.is_full}
