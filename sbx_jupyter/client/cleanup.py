"""Lets the clean-up of a cancelled call finish."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

T = TypeVar("T")

CLEANUP_SECONDS: Final = 5.0


@contextlib.contextmanager
def shielded(seconds: float = CLEANUP_SECONDS) -> Generator[None]:
    """Let the awaits inside finish although the caller is cancelled, or end them after ``seconds``.

    A cancelled scope of anyio cancels every await in it, also those of the clean-up, while plain
    asyncio cancels once. Servers built on anyio, such as those for MCP, cancel by such scopes.
    """
    # httpx stands on anyio; imported here, since looking for the engine needs neither.
    import anyio

    with anyio.move_on_after(seconds, shield=True):
        yield


async def finish_or_undo(
    work: Coroutine[Any, Any, T],
    undo: Callable[[T], Awaitable[object]],
    seconds: float = CLEANUP_SECONDS,
) -> T:
    """Await ``work``; when the caller is cancelled, wait for its end and undo what it made.

    A request that is on its way cannot be taken back, and only its answer names what it made. The
    caller is held up for at most ``seconds``.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            with shielded(seconds), contextlib.suppress(SbxError):
                await undo(await asyncio.shield(task))
        finally:
            task.cancel()
        raise
