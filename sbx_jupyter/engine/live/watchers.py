"""All watchers of one sandbox: those of streams, and those whose events are fetched by id."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.live import descriptors
from sbx_jupyter.engine.live.agent import convert_body
from sbx_jupyter.engine.live.shared_inotify import SharedInotify
from sbx_jupyter.engine.live.watcher import Watcher
from sbx_jupyter.errors import NotFoundError, SbxError, UnavailableError
from sbx_jupyter.protocol import agent as ops

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.agent import AgentCaller
    from sbx_jupyter.protocol.runtime import FilesystemEvent, WatchDirRequest

_DISARMED_AT_ONCE: Final = 4096
"""So that the agent is not busy for long."""


class _Left(msgspec.Struct, frozen=True):
    left: int


class Watchers:
    """All watchers of one sandbox: those of streams, and those whose events are fetched by id."""

    def __init__(self, agent: AgentCaller) -> None:
        self._agent = agent
        self._shared = SharedInotify()
        self._known: set[Watcher] = set()
        """Watchers that the agent knows, including those that ended here."""
        self._streams: set[Watcher] = set()
        self._orphans: list[Watcher] = []
        self._by_id: dict[str, Watcher] = {}
        self._closed_by: SbxError | None = None
        self._disconnected_by: SbxError | None = None

    def __len__(self) -> int:
        return len(self._by_id) + sum(not watch.is_closed for watch in self._streams)

    async def watch(self, request: WatchDirRequest, user: str | None = None) -> Watcher:
        """Watch a directory; the watcher is active on return, and must be closed.

        Raises ``NotFoundError``, ``InvalidArgumentError`` for a file or a network file system,
        ``ResourceExhaustedError`` when the machine has no inotify watches left, and
        ``UnavailableError`` when the sandbox was paused or ended meanwhile.
        """
        watch = await self._arm(request, user)
        if self._disconnected_by is not None:  # the sandbox was paused since the agent answered
            self._orphans.append(watch)
            watch.fail(self._disconnected_by)
            raise self._disconnected_by
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
        await self.close(watch)

    async def close(self, watch: Watcher) -> None:
        """End a watcher; may be called more than once."""
        was_active = watch.is_active
        watch.close()
        if was_active:
            await self._end(watch)
        elif watch in self._known and watch not in self._orphans:
            self._orphans.append(watch)  # it failed, perhaps since the agent does not answer

    def disconnect(self, error: SbxError) -> None:
        """End the watchers of streams with ``error``, and new ones until ``resume``.

        Those with an id stay.
        """
        self._disconnected_by = error
        for watch in self._streams:
            if watch.is_active:
                watch.fail(error)
        self._orphans += [watch for watch in self._streams if watch in self._known]
        self._streams.clear()

    def resume(self) -> None:
        """Allow new streams again."""
        self._disconnected_by = None

    async def _drop_orphans(self) -> None:
        """End them in the agent too, which was frozen when they were ended here."""
        while self._orphans:
            await self._end(self._orphans.pop())

    async def _end(self, watch: Watcher) -> None:
        """End a watcher in the agent, and the watches of folders that no other one needs."""
        with contextlib.suppress(NotFoundError, UnavailableError):  # gone with its sandbox
            async with self._shared.ending():
                if watch not in self._known:
                    return
                self._known.discard(watch)
                reply = await self._agent.call(ops.UNWATCH, watch=watch.id)
                descriptors.close_all(reply.fds)
                if not convert_body(reply.body, _Left).left:
                    self._shared.close()  # as the agent does
                    return
                needed = set[int]().union(*(known.wds for known in self._known))
                useless = sorted(watch.wds - needed)
                for start in range(0, len(useless), _DISARMED_AT_ONCE):
                    some = useless[start : start + _DISARMED_AT_ONCE]
                    descriptors.close_all((await self._agent.call(ops.DISARM, wds=some)).fds)

    def abandon(self, error: SbxError) -> None:
        """End every watcher with ``error``."""
        self._closed_by = error
        for watch in (*self._streams, *self._by_id.values()):
            watch.fail(error)
        self._streams.clear()
        self._known.clear()
        self._shared.close()

    def _find(self, watcher_id: str) -> Watcher:
        try:
            return self._by_id[watcher_id]
        except KeyError:
            raise NotFoundError(f"watcher with id {watcher_id} not found") from None

    async def _arm(self, request: WatchDirRequest, user: str | None) -> Watcher:
        await self._drop_orphans()
        watch = Watcher(self._agent, self._shared, request)
        await watch.start(request, user)
        if self._closed_by is not None:  # the sandbox ended since the agent answered
            watch.fail(self._closed_by)
            self._shared.close()
            raise self._closed_by
        self._known.add(watch)
        return watch
