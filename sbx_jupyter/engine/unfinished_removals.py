"""Takes up removals of files again that failed, for instance because the zygote was killed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 1.0
_LONGEST_DELAY: Final = 60.0
_ATTEMPTS: Final = 20
"""A removal is left to the next engine when it failed this often, after about a quarter hour."""

_MOST: Final = 10_000
"""Removals that may wait; those above are left to the next engine."""


@dataclass(slots=True)
class _Removal:
    remove: Callable[[], Awaitable[None]]
    attempts_left: int = _ATTEMPTS


class UnfinishedRemovals:
    """Pending removals, tried again until they succeed; the next engine does those left over."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Removal] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def add(self, name: str, remove: Callable[[], Awaitable[None]]) -> None:
        """Call ``remove`` until it raises neither ``SbxError`` nor ``OSError``.

        ``name`` stands for what it removes; nothing is added twice.
        """
        if self._is_closed or name in self._waiting:
            return
        if len(self._waiting) >= _MOST:
            _log.error("%s is not removed before the next start: too much is left", name)
            return
        self._waiting[name] = _Removal(remove)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._remove_all(), name="sbx-removals")

    async def aclose(self) -> None:
        """Cancel the removals that are left."""
        self._is_closed = True
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _remove_all(self) -> None:
        delay = _FIRST_DELAY
        while self._waiting:
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
            for name, removal in list(self._waiting.items()):
                if await self._is_over(name, removal):
                    del self._waiting[name]

    async def _is_over(self, name: str, removal: _Removal) -> bool:
        """Whether a removal succeeded or is given up."""
        try:
            await removal.remove()
        except (SbxError, OSError) as error:
            removal.attempts_left -= 1
            if removal.attempts_left:
                _log.warning("%s is not removed yet: %s", name, error)
                return False
            _log.error("%s is not removed before the next start: %s", name, error)
        return True
