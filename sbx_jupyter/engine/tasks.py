"""Background tasks with an owner, and work that a cancelled caller must not interrupt."""

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
    """The tasks of one owner: kept until they end, and logged when they fail.

    A failure is logged as an error with its traceback, an ``SbxError`` at debug level. An error
    that ``complete`` raises to its caller is not logged.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run ``work`` in the background; a failure is logged."""
        task = self._start(work, name)
        task.add_done_callback(_log_failure)
        return task

    async def complete(self, work: Coroutine[Any, Any, T], name: str | None = None) -> T:
        """Await ``work``; if the caller is cancelled, ``work`` goes on in the background."""
        task = self._start(work, name)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The caller no longer receives the error, so it has to be logged.
            task.add_done_callback(_log_failure)
            raise

    def cancel(self) -> None:
        """Cancel the tasks that still run, without waiting for their end."""
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        """Cancel the tasks that still run, and wait for their end."""
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def drain(self, timeout: float | None = None) -> None:
        """Wait for all tasks and for those that they spawn; cancel them after ``timeout`` seconds.

        ``None`` waits without a limit. The calling task is not waited for.
        """
        current = asyncio.current_task()
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while waiting := [task for task in self._tasks if task is not current]:
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                _log.warning("%d tasks did not end and are cancelled", len(waiting))
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
                return
            await asyncio.wait(waiting, timeout=left)

    def _start(self, work: Coroutine[Any, Any, T], name: str | None) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _log_failure(task: asyncio.Task[Any]) -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    if isinstance(error, SbxError):
        _log.debug("task %s failed: %s", task.get_name(), error)
    else:
        _log.error("task %s failed", task.get_name(), exc_info=error)


async def finish_or_undo(
    work: Coroutine[Any, Any, T], *, undo: Callable[[T], Awaitable[None]] | None = None
) -> T:
    """Await ``work`` to its end even if the caller is cancelled, then raise ``CancelledError``.

    If the caller was cancelled, the result of ``work`` is passed to ``undo``.
    """
    task = asyncio.create_task(work)
    if not await _finish(task):
        return task.result()
    # Reading the exception keeps asyncio from logging that it was never retrieved.
    if task.exception() is None and undo is not None:
        await _finish(asyncio.ensure_future(undo(task.result())))
    raise asyncio.CancelledError


async def _finish(task: asyncio.Future[Any]) -> bool:
    """Wait until ``task`` ends; return whether the caller was cancelled meanwhile."""
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            is_cancelled = True
    return is_cancelled
