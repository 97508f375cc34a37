"""Starts programs in threads, so that none is left of a caller that is cancelled meanwhile.

The threads are not those of the event loop, all of which may wait for what is started here.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from concurrent.futures import Future

T = TypeVar("T")

_threads: Final = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sbx-launch")


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call what a start needs and what blocks. Raises as ``function`` does."""
    return await asyncio.get_running_loop().run_in_executor(_threads, function, *args)


async def launch(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a process in a thread; one whose caller was cancelled meanwhile is ended.

    Raises as ``start`` does.
    """
    starting = _threads.submit(start)
    try:
        return await asyncio.wrap_future(starting)
    except asyncio.CancelledError:
        # In the thread: the event loop may be closed before the process has started.
        starting.add_done_callback(_end)
        raise


def _end(starting: Future[subprocess.Popen[bytes]]) -> None:
    if starting.cancelled() or starting.exception() is not None:
        return
    process = starting.result()
    process.kill()
    process.wait()  # at once: it has hardly begun
