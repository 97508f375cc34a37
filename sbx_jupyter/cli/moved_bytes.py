"""Tells how far a copy is that takes long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.cli.sizes import show_size
from sbx_jupyter.isolation.zygote.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST: Final = 1.0
_EVERY: Final = 2.0
"""Seconds before the first line and between two."""


class MovedBytes(Progress):
    """The bytes that are copied, of ``total``; ``tell`` gets a line now and then."""

    def __init__(self, total: int, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._total = total
        self._tell = tell
        self._count = 0
        self._next = time.monotonic() + _FIRST

    def add(self, count: int) -> None:
        """Add to the bytes copied. Raises ``Cancelled``."""
        super().add(count)
        self._count += count
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            done = min(self._count, self._total)
            percent = 100 * done // max(self._total, 1)
            self._tell(f"{percent:3} %: {show_size(done)} of {show_size(self._total)} copied")
