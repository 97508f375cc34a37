"""Watchers of directories of one sandbox (interface 3.4, "Watch events").

The agent sets up inotify inside and passes the descriptor out; events are read and named here. The
agent also adds folders that appear below a recursive watcher, and lists what they contain by then,
so that nothing in between is missed.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.live import descriptors, inotify
from sbx_jupyter.engine.live.agent import convert_body
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
    from sbx_jupyter.engine.live.agent import AgentCaller

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
"""A mark in the queue: events after it cannot repeat these names, which a listing found."""


class Watcher:
    """Watches one directory: an asynchronous iterator of its events, until ``aclose``."""

    def __init__(
        self, agent: AgentCaller, fd: int, armed: _Armed, request: WatchDirRequest
    ) -> None:
        self._agent = agent
        self._fd = fd
        self.id = armed.watch
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

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_active(self) -> bool:
        """Whether it was neither closed nor ended by an error."""
        return self._error is None and not self._is_closed

    async def take(self) -> list[FilesystemEvent]:
        """Remove and return the events so far. Raises the error that ended the watcher."""
        if self._error is None:
            self._read()
            # Shielded: events in progress must not be lost when the caller is cancelled.
            await self._tasks.complete(self._process())
        if self._error is not None:
            raise self._error
        taken = list(self._events)
        self._events.clear()
        return taken

    def __aiter__(self) -> Watcher:
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
                descriptors.close_all((await self._agent.call(ops.UNWATCH, watch=self.id)).fds)

    def fail(self, error: SbxError) -> None:
        """End the watcher; every later use raises ``error``."""
        if self._error is None and not self._is_closed:
            self._error = error
            self._close()
            self._is_closed = False  # so that later uses raise the error

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
        """Move the events of the kernel into the queue, which is bounded."""
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
        """Turn the queue into events, in order; concurrent calls wait for each other."""
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
            return  # moved away, or the parent folder has the event
        name = _join(folder, event.name)
        if event.mask & _APPEARED and name in self._found:
            return
        for kind in event.types:
            await self._add(name, kind)
        if self._recursive and event.mask & inotify.IN_ISDIR and event.name:
            await self._follow(event, name)

    async def _follow(self, event: inotify.KernelEvent, name: str) -> None:
        """Start or stop watching a folder that appeared or disappeared."""
        if event.mask & (inotify.system.IN_MOVED_FROM | inotify.system.IN_DELETE):
            gone = [wd for wd, folder in self._folders.items() if _is_within(folder, name)]
            for wd in gone:
                del self._folders[wd]
        if not event.mask & _APPEARED:
            return
        reply = await self._agent.call(ops.WATCH_ADD, watch=self.id, folder=name)
        descriptors.close_all(reply.fds)
        armed = convert_body(reply.body, _Armed, strict=False)
        self._folders.update(armed.wds)
        if len(self._folders) > MAX_FOLDERS:
            raise ResourceExhaustedError(f"too many folders below '{self._path}'")
        if event.mask & inotify.system.IN_MOVED_TO:
            return  # moved with its contents: one event for the folder is enough
        # Kernel events so far about the found names repeat what is reported here.
        self._read()
        self._found.update(armed.found)
        self._queue.append(frozenset(armed.found))
        for found in armed.found:
            await self._add_found(found)

    async def _add_found(self, name: str) -> None:
        """Report an entry that existed before its folder was watched."""
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
            self._events[-1] = event  # one event for a long write
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
        return convert_body(reply.body, _Entry, strict=False).entry


class Watchers:
    """All watchers of one sandbox: those of streams, and those whose events are fetched by id."""

    def __init__(self, agent: AgentCaller) -> None:
        self._agent = agent
        self._streams: set[Watcher] = set()
        self._orphans: list[int] = []
        self._by_id: dict[str, Watcher] = {}

    def __len__(self) -> int:
        return len(self._by_id) + sum(not watch.is_closed for watch in self._streams)

    async def watch(self, request: WatchDirRequest, user: str | None = None) -> Watcher:
        """Watch a directory; the watcher is active on return, and must be closed.

        Raises ``NotFoundError``, ``InvalidArgumentError`` for a file or a network file system,
        ``ResourceExhaustedError`` when the machine has no inotify watches left.
        """
        watch = await self._arm(request, user)
        self._streams = {known for known in self._streams if not known.is_closed}
        self._streams.add(watch)
        return watch

    async def create(self, request: WatchDirRequest, user: str | None = None) -> str:
        """Watch a directory until ``remove``, collecting its events; raises as ``watch``."""
        watch = await self._arm(request, user)
        watcher_id = f"w{secrets.token_hex(10)}"
        self._by_id[watcher_id] = watch
        return watcher_id

    async def events(self, watcher_id: str) -> list[FilesystemEvent]:
        """The events since the last call.

        Raises ``NotFoundError`` for an unknown watcher, and the error that ended a watcher.
        """
        return await self._find(watcher_id).take()

    async def remove(self, watcher_id: str) -> None:
        """End a watcher; raises ``NotFoundError``."""
        watch = self._find(watcher_id)
        del self._by_id[watcher_id]
        await watch.aclose()

    def disconnect(self, error: SbxError) -> None:
        """End the watchers of streams with ``error``; those with an id stay."""
        for watch in self._streams:
            if watch.is_active:
                self._orphans.append(watch.id)
                watch.fail(error)
        self._streams.clear()

    async def _drop_orphans(self) -> None:
        """End them in the agent too, which was frozen when they were ended here."""
        while self._orphans:
            with contextlib.suppress(NotFoundError):
                reply = await self._agent.call(ops.UNWATCH, watch=self._orphans.pop())
                descriptors.close_all(reply.fds)

    def abandon(self, error: SbxError) -> None:
        """End every watcher with ``error``."""
        for watch in (*self._streams, *self._by_id.values()):
            watch.fail(error)
        self._streams.clear()

    def _find(self, watcher_id: str) -> Watcher:
        try:
            return self._by_id[watcher_id]
        except KeyError:
            raise NotFoundError(f"watcher with id {watcher_id} not found") from None

    async def _arm(self, request: WatchDirRequest, user: str | None) -> Watcher:
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
            return Watcher(self._agent, fd, convert_body(reply.body, _Armed, strict=False), request)
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
    """The name as valid UTF-8: other bytes become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")
