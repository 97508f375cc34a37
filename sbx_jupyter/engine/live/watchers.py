"""Watches on directories of one sandbox (interface 3.4, "Watch events").

The agent arms inotify inside and hands the descriptor out; events are read and named here. Folders
that appear below a recursive watch are armed through the agent, which also says what they held by
then, so that nothing is missed in between.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.engine.live import descriptors, inotify
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.errors import (
    InternalError,
    NotFoundError,
    ResourceExhaustedError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol import runtime
from sbx_jupyter.protocol.runtime import EntryInfo, FilesystemEvent, WatchDirRequest

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.process import Caller

MAX_EVENTS: Final = 10_000
MAX_FOLDERS: Final = 200_000

_WITH_ENTRY: Final = (runtime.EVENT_CREATE, runtime.EVENT_CHMOD, runtime.EVENT_WRITE)
_APPEARED: Final = inotify.system.IN_CREATE | inotify.system.IN_MOVED_TO
_ROOT: Final = "."


class _Armed(msgspec.Struct, frozen=True):
    wds: dict[int, str]
    watch: int = 0
    path: str = ""
    found: list[str] = []


class _Entry(msgspec.Struct, frozen=True):
    entry: EntryInfo


_Boundary = frozenset[str]
"""Stands in the queue behind the last kernel event that can repeat one of these found names."""


class Watch:
    """One watched directory: an asynchronous iterator of its events, until ``aclose``."""

    def __init__(self, agent: Caller, fd: int, armed: _Armed, request: WatchDirRequest) -> None:
        self._agent = agent
        self._fd = fd
        self._id = armed.watch
        self._path = armed.path
        self._recursive = request.recursive
        self._include_entry = request.include_entry
        self._folders = dict(armed.wds)
        self._queue: collections.deque[inotify.KernelEvent | _Boundary] = collections.deque()
        self._found: set[str] = set()
        self._events: collections.deque[FilesystemEvent] = collections.deque()
        self._error: SbxError | None = None
        self._is_closed = False
        self._arrived = asyncio.Event()
        self._processing = asyncio.Lock()
        self._tasks = BackgroundTasks()
        asyncio.get_running_loop().add_reader(fd, self._readable)

    async def take(self) -> list[FilesystemEvent]:
        """All events up to this moment, and forget them. Raises the error that ended the watch."""
        if self._error is None:
            self._read()
            # Shielded, since a caller who gives up must not lose what is being worked on.
            await self._tasks.complete(self._process())
        if self._error is not None:
            raise self._error
        taken = list(self._events)
        self._events.clear()
        return taken

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> FilesystemEvent:
        while not self._events:
            if self._error is not None:
                raise self._error
            if self._is_closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()

    async def aclose(self) -> None:
        """Stop watching; may be called more than once."""
        if self._is_closed:
            return
        was_alive = self._error is None
        self._close()
        if was_alive:
            with contextlib.suppress(NotFoundError, UnavailableError):  # gone with its sandbox
                descriptors.close_all((await self._agent.call(ops.UNWATCH, watch=self._id)).fds)

    def fail(self, error: SbxError) -> None:
        """End the watch; every later use raises ``error``."""
        if self._error is None and not self._is_closed:
            self._error = error
            self._close()
            self._is_closed = False  # whoever holds it still learns of the error

    def _close(self) -> None:
        self._is_closed = True
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        self._queue.clear()  # which also ends the tasks that work on it
        self._arrived.set()

    def _readable(self) -> None:
        self._read()
        if self._queue:
            self._tasks.spawn(self._process())

    def _read(self) -> None:
        """Move what the kernel holds into the queue, which is bounded."""
        try:
            while self._fd >= 0 and (events := inotify.read(self._fd)):
                self._queue.extend(events)
                if len(self._queue) > MAX_EVENTS:
                    self._overflow()
        except (OSError, InternalError) as error:
            self.fail(InternalError(f"the watch of '{self._path}' broke: {error}"))

    def _overflow(self) -> None:
        self.fail(ResourceExhaustedError(f"too many events at once in '{self._path}'"))

    async def _process(self) -> None:
        """Turn the queue into events, in order, however many ask for it at the same time."""
        async with self._processing:
            while self._queue:
                item = self._queue.popleft()
                try:
                    if isinstance(item, frozenset):
                        self._found -= item
                    else:
                        await self._translate(item)
                except SbxError as error:
                    self.fail(error)

    async def _translate(self, event: inotify.KernelEvent) -> None:
        if event.mask & inotify.IN_Q_OVERFLOW:
            self._overflow()
            return
        if event.mask & inotify.IN_IGNORED:
            self._folders.pop(event.wd, None)
            return
        folder = self._folders.get(event.wd)
        if folder is None or (folder != _ROOT and not event.name):
            return  # moved away, or told by the parent folder already
        name = _join(folder, event.name)
        if event.mask & _APPEARED and name in self._found:
            return
        for kind in event.types:
            await self._add(name, kind)
        if self._recursive and event.mask & inotify.IN_ISDIR and event.name:
            await self._follow(event, name)

    async def _follow(self, event: inotify.KernelEvent, name: str) -> None:
        """Go along with a folder that appeared or went away."""
        if event.mask & (inotify.system.IN_MOVED_FROM | inotify.system.IN_DELETE):
            gone = [wd for wd, folder in self._folders.items() if _is_within(folder, name)]
            for wd in gone:
                del self._folders[wd]
        if not event.mask & _APPEARED:
            return
        reply = await self._agent.call(ops.WATCH_ADD, watch=self._id, folder=name)
        descriptors.close_all(reply.fds)
        armed = _convert(reply.body, _Armed)
        self._folders.update(armed.wds)
        if len(self._folders) > MAX_FOLDERS:
            raise ResourceExhaustedError(f"too many folders below '{self._path}'")
        if event.mask & inotify.system.IN_MOVED_TO:
            return  # it brought along what it holds: one event stands for all
        # What the kernel says of the found names until now repeats what is told here.
        self._read()
        self._found.update(armed.found)
        self._queue.append(frozenset(armed.found))
        for found in armed.found:
            await self._add_found(found)

    async def _add_found(self, name: str) -> None:
        """Tell of something that was there before its folder was watched."""
        entry = await self._stat(name)
        self._append(name, runtime.EVENT_CREATE, entry)
        if entry is not None and entry.type == runtime.FILE and entry.size:
            self._append(name, runtime.EVENT_WRITE, entry)

    async def _add(self, name: str, kind: str) -> None:
        wanted = self._include_entry and kind in _WITH_ENTRY
        self._append(name, kind, await self._stat(name) if wanted else None)

    def _append(self, name: str, kind: str, entry: EntryInfo | None) -> None:
        if self._is_closed or self._error is not None:
            return
        shown = entry if self._include_entry else None
        event = FilesystemEvent(name=_printable(name), type=kind, entry=shown)
        last = self._events[-1] if self._events else None
        if last and kind == runtime.EVENT_WRITE and (last.name, last.type) == (event.name, kind):
            self._events[-1] = event  # a long write is told once to whoever asks at its end
            return
        if len(self._events) >= MAX_EVENTS:
            raise ResourceExhaustedError(
                f"more than {MAX_EVENTS} events of '{self._path}' were not collected"
            )
        self._events.append(event)
        self._arrived.set()

    async def _stat(self, name: str) -> EntryInfo | None:
        path = self._path if name == _ROOT else f"{self._path}/{name}"
        try:
            reply = await self._agent.call(ops.STAT, path=path, user=None)
        except UnavailableError:
            raise
        except SbxError:
            return None  # gone already
        descriptors.close_all(reply.fds)
        return _convert(reply.body, _Entry).entry


class Watchers:
    """All watches of one sandbox, those of streams and those that are asked for their events."""

    def __init__(self, agent: Caller) -> None:
        self._agent = agent
        self._streams: set[Watch] = set()
        self._orphans: list[int] = []
        self._named: dict[str, Watch] = {}

    def __len__(self) -> int:
        return len(self._named) + sum(not watch._is_closed for watch in self._streams)

    async def watch(self, request: WatchDirRequest, user: str | None = None) -> Watch:
        """Watch a directory; the watch is armed on return, and must be closed.

        Raises ``NotFoundError``, ``InvalidArgumentError`` for a file or a network file system,
        ``ResourceExhaustedError`` when the machine has no more watches to give.
        """
        watch = await self._arm(request, user)
        self._streams = {known for known in self._streams if not known._is_closed}
        self._streams.add(watch)
        return watch

    async def create(self, request: WatchDirRequest, user: str | None = None) -> str:
        """Watch a directory until ``remove``, collecting its events; raises as ``watch``."""
        watch = await self._arm(request, user)
        watcher_id = f"w{secrets.token_hex(10)}"
        self._named[watcher_id] = watch
        return watcher_id

    async def events(self, watcher_id: str) -> list[FilesystemEvent]:
        """What happened since the last call.

        Raises ``NotFoundError`` for an unknown watcher, and the error that ended it ever after.
        """
        return await self._find(watcher_id).take()

    async def remove(self, watcher_id: str) -> None:
        """End a watcher; raises ``NotFoundError``."""
        watch = self._find(watcher_id)
        del self._named[watcher_id]
        await watch.aclose()

    def hang_up(self, error: SbxError) -> None:
        """End the watches of streams with ``error``; those with a name go on."""
        for watch in self._streams:
            if watch._error is None and not watch._is_closed:
                self._orphans.append(watch._id)
                watch.fail(error)
        self._streams.clear()

    async def _drop_orphans(self) -> None:
        """Tell the agent, which stood still when they were ended."""
        while self._orphans:
            with contextlib.suppress(NotFoundError):
                reply = await self._agent.call(ops.UNWATCH, watch=self._orphans.pop())
                descriptors.close_all(reply.fds)

    def abandon(self, error: SbxError) -> None:
        """End every watch with ``error``."""
        for watch in (*self._streams, *self._named.values()):
            watch.fail(error)
        self._streams.clear()

    def _find(self, watcher_id: str) -> Watch:
        try:
            return self._named[watcher_id]
        except KeyError:
            raise NotFoundError(f"watcher with id {watcher_id} not found") from None

    async def _arm(self, request: WatchDirRequest, user: str | None) -> Watch:
        await self._drop_orphans()
        reply = await self._agent.call(
            ops.WATCH,
            path=request.path,
            user=user,
            recursive=request.recursive,
            allow_network_mounts=request.allow_network_mounts,
        )
        (fd,) = descriptors.take(reply.fds, inotify.is_inotify)
        try:
            return Watch(self._agent, fd, _convert(reply.body, _Armed), request)
        except BaseException:
            os.close(fd)
            raise


def _join(folder: str, name: str) -> str:
    if not name:
        return folder
    return name if folder == _ROOT else f"{folder}/{name}"


def _is_within(folder: str, name: str) -> bool:
    return folder == name or folder.startswith(name + "/")


def _printable(name: str) -> str:
    """A name that can be sent: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")


def _convert(body: dict[str, Any], kind: Any) -> Any:
    try:
        return msgspec.convert(body, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InternalError(f"the sandbox gave a malformed answer: {error}") from error
