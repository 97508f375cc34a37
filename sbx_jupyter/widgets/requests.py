"""The operations on a sandbox that a widget's front end may request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.client.files.files import read_at_most
from sbx_jupyter.errors import ResourceExhaustedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sbx_jupyter.client import AsyncSandbox

MAX_READ: Final = 16 * 1024 * 1024
"""Bytes. Every process on the way to the browser holds a whole comm message in memory."""


class Request(msgspec.Struct, kw_only=True, frozen=True):
    """One message of the front end; ``op`` decides which fields are used."""

    view: str
    seq: int
    op: str
    id: int
    path: str = ""
    source: str = ""
    destination: str = ""
    terminal: int = 0
    cols: int = 80
    rows: int = 24
    pid: int | None = None
    since: int | None = None


Answer = tuple[Any, "Sequence[bytes]"]
"""Content for JSON, and the binary buffers of the message."""


async def _list(sandbox: AsyncSandbox, request: Request, _: bytes) -> Answer:
    entries = await sandbox.files.list(request.path)
    return {"entries": msgspec.to_builtins(entries)}, ()


async def _read(sandbox: AsyncSandbox, request: Request, _: bytes) -> Answer:
    content = await read_at_most(sandbox.files, request.path, MAX_READ)
    if content is None:
        raise ResourceExhaustedError(
            f"{request.path} is larger than the {MAX_READ >> 20} MiB that a widget can"
            " carry; use sandbox.files.download() in a cell"
        )
    return {}, (content,)


async def _write(sandbox: AsyncSandbox, request: Request, content: bytes) -> Answer:
    await sandbox.files.write(request.path, content)
    return {}, ()


async def _make_dir(sandbox: AsyncSandbox, request: Request, _: bytes) -> Answer:
    await sandbox.files.make_dir(request.path)
    return {}, ()


async def _move(sandbox: AsyncSandbox, request: Request, _: bytes) -> Answer:
    await sandbox.files.rename(request.source, request.destination)
    return {}, ()


async def _remove(sandbox: AsyncSandbox, request: Request, _: bytes) -> Answer:
    await sandbox.files.remove(request.path)
    return {}, ()


async def _metrics(sandbox: AsyncSandbox, _: Request, __: bytes) -> Answer:
    return msgspec.to_builtins(await sandbox.metrics()), ()


async def _state(sandbox: AsyncSandbox, _: Request, __: bytes) -> Answer:
    return {"state": (await sandbox.get_info()).state}, ()


OPERATIONS: Final[dict[str, Callable[[AsyncSandbox, Request, bytes], Awaitable[Answer]]]] = {
    "list": _list,
    "read": _read,
    "write": _write,
    "make_dir": _make_dir,
    "move": _move,
    "remove": _remove,
    "metrics": _metrics,
    "state": _state,
}
