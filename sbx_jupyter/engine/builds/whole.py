"""Work that a cancelled build must not leave half done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Await ``work`` to its end; a cancellation of the caller is raised after that."""
    task = asyncio.create_task(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        task.exception()  # looked at, so that nobody misses it
        raise asyncio.CancelledError
    return task.result()
