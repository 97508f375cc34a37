"""Work that a cancellation must not leave half done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")


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
