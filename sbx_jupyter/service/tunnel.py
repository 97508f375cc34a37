"""Copies bytes both ways between two connections, each at the pace of its reader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tornado.iostream import IOStream, StreamClosedError

if TYPE_CHECKING:
    from sbx_jupyter.service.counters import Counters

_CHUNK: Final = 256 * 1024


async def join(client: IOStream, stream: IOStream, counters: Counters) -> None:
    """Copy until either side ends; raises nothing for a side that goes away."""
    upload = asyncio.create_task(_copy(client, stream, counters))
    download = asyncio.create_task(_copy(stream, client, counters))
    try:
        await asyncio.wait((upload, download), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (upload, download):
            task.cancel()
        await asyncio.gather(upload, download, return_exceptions=True)


async def _copy(source: IOStream, destination: IOStream, counters: Counters) -> None:
    try:
        while True:
            chunk = await source.read_bytes(_CHUNK, partial=True)
            counters.sent_bytes += len(chunk)
            await destination.write(chunk)
    except StreamClosedError:
        return
