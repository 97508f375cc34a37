"""Background tasks that somebody owns: they are kept, logged when they fail, and cancelled."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine


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


async def whole(
    work: Coroutine[Any, Any, T], *, undo: Callable[[T], Awaitable[None]] | None = None
) -> T:
    """Await ``work`` to its end; a cancellation of the caller is raised after that.

    ``undo`` is given what the work made when nobody is left to take it.
    """
    task = asyncio.create_task(work)
    if not await _finish(task):
        return task.result()
    # Looked at, so that nobody misses it.
    if task.exception() is None and undo is not None:
        await _finish(asyncio.ensure_future(undo(task.result())))
    raise asyncio.CancelledError


async def _finish(task: asyncio.Future[Any]) -> bool:
    """Wait for ``task`` however often the caller is cancelled; whether it was."""
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            is_cancelled = True
    return is_cancelled
