"""Tells clients which sandboxes, templates, volumes, secrets and ports of theirs have changed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.live.process_listing import port_numbers
from sbx_jupyter.engine.state.rows import (
    BuildRow,
    SandboxRow,
    SecretRow,
    TemplateRow,
    VolumeRow,
)
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.engine.watch.activity import ActivityReader
from sbx_jupyter.errors import ResourceExhaustedError, SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.engine import Engine
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.owners import Caller
    from sbx_jupyter.engine.state.rows import Row
    from sbx_jupyter.engine.state.store import Store

PORTS_INTERVAL: Final = 2.0
"""Seconds between two looks at the ports of the sandboxes, while somebody follows changes."""

MAX_STREAMS: Final = 1024
MAX_STREAMS_PER_OWNER: Final = 64

MAX_IDS: Final = 1000
"""Ids of each kind that one client is told at once; of more, the newest."""


class ChangeStream:
    """Collects the changes to tell one client, each thing once."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._changed: dict[str, dict[str, None]] = {}
        self._has_changed = asyncio.Event()
        self.is_closed = False

    @property
    def owner(self) -> str:
        """The owner that the client belongs to; empty for the engine's operator."""
        return self._caller.owner

    def note(self, kind: str, key: str, owner: str, *, is_public: bool = False) -> None:
        """Note a change of a thing of ``owner``, if the client may see it."""
        if not (is_public or self._caller.may_use(owner)):
            return
        ids = self._changed.setdefault(kind, {})
        ids.pop(key, None)
        ids[key] = None
        if len(ids) > MAX_IDS:
            del ids[next(iter(ids))]
        self._has_changed.set()

    def take(self) -> dict[str, list[str]]:
        """Take the ids of changed things to tell the client now, by kind."""
        self._has_changed.clear()
        changed, self._changed = self._changed, {}
        return {kind: list(ids) for kind, ids in changed.items()}

    async def wait(self) -> None:
        """Return when something has changed or the stream was closed."""
        await self._has_changed.wait()

    def close(self) -> None:
        """Let ``wait`` return."""
        self.is_closed = True
        self._has_changed.set()


class ChangeStreams:
    """The streams of all clients of one engine that follow changes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._streams: set[ChangeStream] = set()
        self._ports: dict[str, frozenset[int]] = {}
        self._tasks = BackgroundTasks()
        self._store: Store | None = None

    @property
    def open(self) -> int:
        """Number of clients that follow changes; an engine with nothing else to do still ends."""
        return len(self._streams)

    def add(self, caller: Caller) -> ChangeStream:
        """Follow changes for a client from now on.

        Raises ``ResourceExhaustedError`` if too many clients do, or too many of one owner: none
        can take the streams of the others.
        """
        if self.open >= MAX_STREAMS:
            raise ResourceExhaustedError(f"{MAX_STREAMS} clients follow changes already")
        own = sum(each.owner == caller.owner for each in self._streams)
        if own >= MAX_STREAMS_PER_OWNER:
            raise ResourceExhaustedError(
                f"{MAX_STREAMS_PER_OWNER} of your clients follow changes already"
            )
        stream = ChangeStream(caller)
        if not self._streams:
            self._store = self._engine.store
            self._store.listeners.add(self._note)
            self._ports = {}
            self._tasks.spawn(self._follow_ports())
        self._streams.add(stream)
        return stream

    def remove(self, stream: ChangeStream) -> None:
        """Follow no more."""
        self._streams.discard(stream)
        if not self._streams and self._store is not None:
            self._store.listeners.discard(self._note)
            self._store = None
            self._tasks.cancel()

    def close(self) -> None:
        """End all streams, when the service stops."""
        for stream in list(self._streams):
            stream.close()
            self.remove(stream)

    def _note(self, before: Row | None, after: Row | None) -> None:
        row = after or before
        match row:
            case SandboxRow():
                self._tell("sandboxes", row.sandbox_id, row.owner)
            case VolumeRow():
                self._tell("volumes", row.volume_id, row.owner)
            case SecretRow():
                self._tell("secrets", row.name, row.owner)
            case TemplateRow() if not _differs_in_use_only(before, after):
                self._note_template(row)
            case BuildRow():
                template = self._engine.store.templates.get(row.template_id)
                if template is not None:
                    self._note_template(template)
            case _:
                pass

    def _note_template(self, row: TemplateRow) -> None:
        kind = "snapshots" if row.is_snapshot else "templates"
        self._tell(kind, row.template_id, row.owner, is_public=row.public)

    def _tell(self, kind: str, key: str, owner: str, *, is_public: bool = False) -> None:
        for stream in self._streams:
            stream.note(kind, key, owner, is_public=is_public)

    async def _follow_ports(self) -> None:
        reader = ActivityReader()
        looked: dict[Sandbox, int | None] = {}
        while True:
            rows = self._engine.sandboxes.rows()
            lives = {row.sandbox_id: self._find_live(row) for row in rows}
            cages = [live.cage for live in lives.values() if live is not None]
            seen = await asyncio.to_thread(reader.read, cages) if cages else {}
            looked = {live: looked[live] for live in lives.values() if live in looked}
            for row in rows:
                live = lives[row.sandbox_id]
                # Read before the look, so that what happens during it is looked at again.
                work_ns = None if live is None else seen[live.cage].work_ns
                if live is not None and work_ns is not None and looked.get(live) == work_ns:
                    continue  # no program ran, so none listens or has ceased to
                try:
                    found = frozenset[int]() if live is None else await port_numbers(live)
                except SbxError:  # it ends, or its agent is of an older version
                    continue
                if found != self._ports.get(row.sandbox_id, frozenset[int]()):
                    self._tell("ports", row.sandbox_id, row.owner)
                self._ports[row.sandbox_id] = found
                if live is not None:
                    looked[live] = work_ns
            self._ports = {key: found for key, found in self._ports.items() if key in lives}
            await asyncio.sleep(PORTS_INTERVAL)

    def _find_live(self, row: SandboxRow) -> Sandbox | None:
        return self._engine.sandboxes.find_live(row.sandbox_id)


def _differs_in_use_only(before: Row | None, after: Row | None) -> bool:
    """Whether a template was only counted as used, as by each sandbox made from it."""
    if not (isinstance(before, TemplateRow) and isinstance(after, TemplateRow)):
        return False
    used = replace(before, spawn_count=after.spawn_count, last_spawned_at=after.last_spawned_at)
    return used == after
