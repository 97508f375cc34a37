"""Background tasks that somebody owns: they are kept, logged when they fail, and cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_log = logging.getLogger(__name__)


class BackgroundTasks:
    """The tasks of one owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run ``work`` until it ends or the owner cancels everything."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def cancel(self) -> None:
        """Cancel what still runs."""
        for task in self._tasks:
            task.cancel()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, SbxError):
            _log.error("a background task failed", exc_info=error)
