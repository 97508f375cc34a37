"""``filesystem.Filesystem`` (interface 3.4)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import DeadlineExceededError
from sbx_jupyter.protocol.runtime import (
    CreateWatcherResponse,
    Empty,
    EntryResponse,
    ListDirRequest,
    ListDirResponse,
    MoveRequest,
    PathRequest,
    WatchDirRequest,
    WatchDirResponse,
    WatcherEventsResponse,
    WatcherRequest,
)
from sbx_jupyter.service.runtime.connect import Call, Method, ServerStream, StreamCall, Unary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sbx_jupyter.protocol.runtime import FilesystemEvent

_START: Final = WatchDirResponse(start=Empty())
_KEEPALIVE: Final = WatchDirResponse(keepalive=Empty())


async def stat(call: Call, request: PathRequest) -> EntryResponse:
    """``Stat``."""
    return EntryResponse(entry=await call.sandbox.files.stat(request.path, call.user))


async def list_dir(call: Call, request: ListDirRequest) -> ListDirResponse:
    """``ListDir``; depth 0 means 1."""
    entries = await call.sandbox.files.list_dir(request.path, request.depth or 1, call.user)
    return ListDirResponse(entries=entries)


async def make_dir(call: Call, request: PathRequest) -> EntryResponse:
    """``MakeDir``."""
    return EntryResponse(entry=await call.sandbox.files.make_dir(request.path, call.user))


async def move(call: Call, request: MoveRequest) -> EntryResponse:
    """``Move``."""
    entry = await call.sandbox.files.move(request.source, request.destination, call.user)
    return EntryResponse(entry=entry)


async def remove(call: Call, request: PathRequest) -> Empty:
    """``Remove``."""
    await call.sandbox.files.remove(request.path, call.user)
    return Empty()


async def create_watcher(call: Call, request: WatchDirRequest) -> CreateWatcherResponse:
    """``CreateWatcher``."""
    watcher_id = await call.sandbox.watchers.create(request, call.user)
    return CreateWatcherResponse(watcher_id=watcher_id)


async def get_watcher_events(call: Call, request: WatcherRequest) -> WatcherEventsResponse:
    """``GetWatcherEvents``."""
    return WatcherEventsResponse(events=await call.sandbox.watchers.events(request.watcher_id))


async def remove_watcher(call: Call, request: WatcherRequest) -> Empty:
    """``RemoveWatcher``."""
    await call.sandbox.watchers.remove(request.watcher_id)
    return Empty()


async def watch_dir(call: StreamCall, request: WatchDirRequest) -> None:
    """``WatchDir``: ``start`` when the watch is active, then events until the client leaves."""
    try:
        async with asyncio.timeout(call.timeout):
            watch = await call.sandbox.watchers.watch(request, call.user)
            try:
                await call.send(_START)
                call.writer.ping_with(call.codec.encode(_KEEPALIVE))
                await _send_events(call, watch)
            finally:
                await call.sandbox.watchers.close(watch)
    except TimeoutError:
        raise DeadlineExceededError("the watch took longer than Connect-Timeout-Ms") from None


async def _send_events(call: StreamCall, watch: AsyncIterator[FilesystemEvent]) -> None:
    async for event in watch:
        await call.send(WatchDirResponse(filesystem=event))


def _audit_make_dir(request: PathRequest) -> tuple[str, str]:
    return "files.make_dir", request.path


def _audit_move(request: MoveRequest) -> tuple[str, str]:
    return "files.move", f"{request.source} -> {request.destination}"


def _audit_remove(request: PathRequest) -> tuple[str, str]:
    return "files.remove", request.path


METHODS: Final[dict[str, Method]] = {
    "filesystem.Filesystem/Stat": Unary(PathRequest, stat),
    "filesystem.Filesystem/ListDir": Unary(ListDirRequest, list_dir),
    "filesystem.Filesystem/MakeDir": Unary(PathRequest, make_dir, _audit_make_dir),
    "filesystem.Filesystem/Move": Unary(MoveRequest, move, _audit_move),
    "filesystem.Filesystem/Remove": Unary(PathRequest, remove, _audit_remove),
    "filesystem.Filesystem/WatchDir": ServerStream(WatchDirRequest, watch_dir),
    "filesystem.Filesystem/CreateWatcher": Unary(WatchDirRequest, create_watcher),
    "filesystem.Filesystem/GetWatcherEvents": Unary(WatcherRequest, get_watcher_events),
    "filesystem.Filesystem/RemoveWatcher": Unary(WatcherRequest, remove_watcher),
}
