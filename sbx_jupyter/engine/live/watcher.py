"""One watcher of a directory of a sandbox (interface 3.4, "Watch events").

The agent sets up inotify inside and passes the descriptor out, one for all watchers of a sandbox;
events are read and named here. The agent also adds folders that appear below a recursive watcher,
and lists what they contain by then, so that nothing in between is missed.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.live import descriptors, inotify
from sbx_jupyter.engine.live.agent import convert_body
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.errors import (
    ResourceExhaustedError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol import runtime
from sbx_jupyter.protocol.runtime import EntryInfo, FilesystemEvent, WatchDirRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sbx_jupyter.engine.live.agent import AgentCaller
    from sbx_jupyter.engine.live.shared_inotify import SharedInotify

MAX_EVENTS: Final = 10_000
MAX_FOLDERS: Final = 200_000
_QUEUED_WHILE_ARMING: Final = 10
"""Factor by which ``MAX_EVENTS`` grows while folders are armed: the queue then also holds the
events of other watchers."""
_EVENTS_BETWEEN_PAUSES: Final = 64

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
    """Watches one directory: an asynchronous iterator of its events, until ``Watchers.close``."""

    def __init__(self, agent: AgentCaller, shared: SharedInotify, request: WatchDirRequest) -> None:
        self._agent = agent
        self._shared = shared
        self.id = 0
        self._path = request.path
        self._recursive = request.recursive
        self._include_entry = request.include_entry
        self._folders: dict[int, str] = {}
        self.wds: set[int] = set()
        """Descriptors of its watches in the kernel, including those of folders moved away."""
        self._arming = 0
        self._queue: collections.deque[inotify.KernelEvent | _Boundary] = collections.deque()
        self._found: set[str] = set()
        self._events: collections.deque[FilesystemEvent] = collections.deque()
        self._error: SbxError | None = None
        self._is_closed = False
        self._arrived = asyncio.Event()
        self._processing = asyncio.Lock()
        self._tasks = BackgroundTasks()

    async def start(self, request: WatchDirRequest, user: str | None) -> None:
        """Have the agent watch the directory; raises as ``Watchers.watch``."""
        self._shared.add(self)
        try:
            async with self._arming_now():
                reply = await self._agent.call(
                    ops.WATCH,
                    path=request.path,
                    user=user,
                    recursive=request.recursive,
                    allow_network_mounts=request.allow_network_mounts,
                )
                (fd,) = descriptors.take(reply.fds, inotify.is_inotify)
                self._shared.open(fd)
                armed = convert_body(reply.body, _Armed, strict=False)
                self.id, self._path = armed.watch, armed.path
                self._learn(armed)
        except BaseException:
            self._close()
            raise
        self._process_later()

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
            self._shared.read()
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

    def fail(self, error: SbxError) -> None:
        """End the watcher; every later use raises ``error``."""
        if self._error is None and not self._is_closed:
            self._error = error
            self._close()
            self._is_closed = False  # so that later uses raise the error

    def close(self) -> None:
        """Take no more events; may be called more than once."""
        if not self._is_closed:
            self._close()

    def _close(self) -> None:
        self._is_closed = True
        self._shared.discard(self)
        self._queue.clear()  # which also ends the tasks that work on it
        self._arrived.set()

    def receive(self, events: list[inotify.KernelEvent]) -> None:
        """Move the events that may be of this watcher into the queue, which is bounded.

        While the agent arms folders, it is not known here yet which those are.
        """
        self._queue.extend(events if self._arming else filter(self._is_own, events))
        if len(self._queue) > MAX_EVENTS * (_QUEUED_WHILE_ARMING if self._arming else 1):
            self._overflow()
        self._process_later()

    def _is_own(self, event: inotify.KernelEvent | _Boundary) -> bool:
        if isinstance(event, frozenset):
            return True
        return event.wd in self.wds or bool(event.mask & inotify.IN_Q_OVERFLOW)

    def _process_later(self) -> None:
        if self._queue and not self._arming:
            self._tasks.spawn(self._process())

    @contextlib.asynccontextmanager
    async def _arming_now(self) -> AsyncGenerator[None]:
        async with self._shared.adding():
            self._arming += 1
            try:
                yield
            finally:
                self._arming -= 1

    def _learn(self, armed: _Armed) -> None:
        self._folders.update(armed.wds)
        self.wds.update(armed.wds)
        self._queue = collections.deque(filter(self._is_own, self._queue))

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
            self.wds.discard(event.wd)
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
        async with self._arming_now():
            reply = await self._agent.call(ops.WATCH_ADD, watch=self.id, folder=name)
            descriptors.close_all(reply.fds)
            armed = convert_body(reply.body, _Armed, strict=False)
            self._learn(armed)
        if len(self._folders) > MAX_FOLDERS:
            raise ResourceExhaustedError(f"too many folders below '{self._path}'")
        # Kernel events so far about the found names repeat what is reported here.
        self._shared.read()
        self._found.update(armed.found)
        self._queue.append(frozenset(armed.found))
        for index, found in enumerate(armed.found):
            if index % _EVENTS_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)  # the reader of a stream takes events meanwhile
            if event.mask & inotify.system.IN_MOVED_TO:
                await self._add(found, runtime.EVENT_CREATE)
            else:
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


def _join(folder: str, name: str) -> str:
    if not name:
        return folder
    return name if folder == _ROOT else f"{folder}/{name}"


def _is_within(folder: str, name: str) -> bool:
    return folder == name or folder.startswith(name + "/")


def _printable(name: str) -> str:
    """The name as valid UTF-8: other bytes become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")
