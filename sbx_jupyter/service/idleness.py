"""Notices when an engine has had nothing to do for a while, so that it can end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sbx_jupyter.engine.engine import Engine
    from sbx_jupyter.service.server import Server

_LOOKS: Final = 10
"""Minimum number of checks within the idle time."""

_LONGEST_PAUSE: Final = 15.0


async def wait_until_idle(engine: Engine, server: Server, seconds: float) -> None:
    """Return when the engine has been idle for ``seconds`` without interruption.

    It is idle when it holds no sandbox, running or paused, builds no template, and no client has a
    connection open or sent a request since the last look.
    """
    loop = asyncio.get_running_loop()
    pause = min(seconds / _LOOKS, _LONGEST_PAUSE)
    idle_since = loop.time()
    requests = server.requests
    while loop.time() - idle_since < seconds:
        await asyncio.sleep(pause)
        if server.requests != requests or _is_busy(engine, server):
            requests = server.requests
            idle_since = loop.time()


def _is_busy(engine: Engine, server: Server) -> bool:
    return (
        server.open_connections > 0
        or len(engine.sandboxes.rows()) > 0
        or engine.templates.builder.is_busy
    )
