"""Starts programs in threads, so that none is left of a caller that is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


async def launch(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a process in a thread; one whose caller was cancelled meanwhile is ended.

    Raises as ``start`` does.
    """
    starting = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_end)
        raise


def _end(starting: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    if starting.cancelled() or starting.exception() is not None:
        return
    process = starting.result()
    process.kill()
    process.wait()  # at once: it has hardly begun
