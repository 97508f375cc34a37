"""Copies bytes both ways between a sandbox and the server that it connected to."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sbx_jupyter.engine.egress.proxy.dialer import Stream

GREETING_TIMEOUT: Final = 30.0
_CHUNK: Final = 128 * 1024


async def relay(inside: Stream, outside: Stream) -> None:
    """Copy both ways until both sides have ended, keeping half-closed connections open."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(inside[0], outside[1]))
            group.create_task(_copy(outside[0], inside[1]))
    except* OSError:
        pass
    finally:
        outside[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError, NotImplementedError):
        if writer.can_write_eof():
            writer.write_eof()
