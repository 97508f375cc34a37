"""Stores the engine's rows with one writer thread, and mirrors them in memory.

A change is in the file before it is acknowledged. Reads use the mirror and never touch the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from sbx_jupyter.engine.state.database import Batch, Database, key_of, translate
from sbx_jupyter.engine.state.rows import (
    BuildRow,
    ImageRow,
    LogRow,
    MergeRow,
    RequestRow,
    Row,
    SandboxRow,
    SecretRow,
    StepRow,
    TemplateRow,
    VolumeRow,
)
from sbx_jupyter.errors import SbxError, UnavailableError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator
    from pathlib import Path

    from sbx_jupyter.engine.state.manifests import Manifests

__all__ = ["Batch", "Store", "Table"]

R = TypeVar("R", bound=Row)

Listener = Callable[[Row | None, Row | None], None]
"""Gets a row before and after a change; there is none before it is made and after it is removed."""

_log = logging.getLogger(__name__)
_MAX_GROUP: Final = 256
_CHECKPOINT_DELAY: Final = 5.0
"""Seconds after a change until it is moved from the log of SQLite to the file, when it is quiet."""


class Table(Generic[R]):
    """The committed rows of one table, in memory."""

    def __init__(self, kind: type[R]) -> None:
        self.kind = kind
        self._rows: dict[str, R] = {}

    def __iter__(self) -> Iterator[R]:
        return iter(list(self._rows.values()))

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def get(self, key: str) -> R | None:
        return self._rows.get(key)

    def set(self, key: str, row: R) -> None:
        """Add or replace a committed row; only the store calls this."""
        self._rows[key] = row

    def discard(self, key: str) -> None:
        """Drop a row whose removal is committed; only the store calls this."""
        self._rows.pop(key, None)


@dataclass(slots=True)
class _Pending:
    batch: Batch
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


class Store:
    """The tables of the engine's state, and the log of all sandboxes."""

    def __init__(
        self,
        path: Path,
        *,
        manifests: Manifests | None = None,
        on_commit: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """``on_commit`` is called with the seconds that each caller of ``commit`` waited.

        ``manifests`` are written after each commit, before its callers go on.
        """
        self.path = path
        self._manifests = manifests
        self._database = Database(path)
        self._on_commit = on_commit
        self.sandboxes = Table(SandboxRow)
        self.templates = Table(TemplateRow)
        self.builds = Table(BuildRow)
        self.requests = Table(RequestRow)
        self.volumes = Table(VolumeRow)
        self.secrets = Table(SecretRow)
        self.steps = Table(StepRow)
        self.images = Table(ImageRow)
        self.merges = Table(MergeRow)
        self._tables: dict[type[Row], Table[Any]] = {
            table.kind: table
            for table in (
                self.sandboxes,
                self.templates,
                self.builds,
                self.requests,
                self.volumes,
                self.secrets,
                self.steps,
                self.images,
                self.merges,
            )
        }
        self._inbox: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._is_checkpoint_due = False
        self.listeners: set[Listener] = set()
        """Called on the event loop for each committed change of a row."""

    @property
    def store_id(self) -> bytes:
        """A random value that tells this store from every other."""
        return self._database.store_id

    @property
    def sequence(self) -> int:
        """The number of the last transaction."""
        return self._database.sequence

    @property
    def is_complete(self) -> bool:
        """Whether it is certain that no transaction is missing."""
        return self._database.is_new or self._database.is_complete

    def rows(self) -> Iterator[Row]:
        """All rows of all tables."""
        for table in self._tables.values():
            yield from table

    async def open(self, *, beside: str = "") -> None:
        """Open or make the file, upgrade it and load the mirror.

        ``beside`` says what else the data directory holds. Raises ``DataLossError`` for a file that
        is damaged, not complete or missing beside something, and ``FailedPreconditionError`` for a
        file of a newer version or of another program; the file is left as it is.
        """
        await asyncio.to_thread(self._open, beside)
        self._writer = threading.Thread(target=self._write_forever, name="sbx-store", daemon=True)
        self._writer.start()

    async def close(self) -> None:
        """Write the pending changes, then close the file."""
        if self._writer is not None:
            self._inbox.put(None)
            await asyncio.to_thread(self._writer.join)
            self._writer = None
        self._database.close()

    async def commit(self, batch: Batch) -> None:
        """Make the changes durable, then visible in the mirror.

        Batches that arrive while another is being written share the next transaction and its
        fsync. Raises ``NoSpaceError`` when the disk is full, ``DataLossError`` when the file is
        damaged, ``UnavailableError`` when the store is closed; then no change of the batch is kept.
        """
        if self._writer is None:
            raise UnavailableError("the engine's store is closed")
        loop = asyncio.get_running_loop()
        started = loop.time()
        pending = _Pending(batch, loop, loop.create_future())
        self._inbox.put(pending)
        # A cancelled caller must not cancel the future: the writer commits the batch anyway.
        await asyncio.shield(pending.done)
        self._on_commit(loop.time() - started)

    async def read_logs(self, since: dt.datetime, limit: int) -> list[LogRow]:
        """The newest ``limit`` log rows since ``since``, oldest first; read once, at start."""
        rows = await asyncio.to_thread(self._database.read_logs, since.timestamp(), limit)
        found: list[LogRow] = []
        for record in rows:
            try:
                found.append(msgspec.json.decode(record, type=LogRow))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                _log.warning("a line of a sandbox's log is damaged and is left out: %s", error)
        return found

    # The methods below run before the writer thread starts or in it, except ``_settle``.

    def _open(self, beside: str) -> None:
        self._database.open(beside)
        try:
            for kind, key, row in self._database.rows():
                self._tables[kind].set(key, row)
        except BaseException:
            self._database.close()
            raise

    def _write_forever(self) -> None:
        while True:
            group, is_last = self._next_group()
            if group:
                self._write_group(group)
            if is_last:
                return

    def _next_group(self) -> tuple[list[_Pending], bool]:
        """Wait for a batch and take those already queued; the flag says that they are the last."""
        group: list[_Pending] = []
        pending = self._wait()
        while pending is not None:
            group.append(pending)
            if len(group) >= _MAX_GROUP or self._inbox.empty():
                return group, False
            pending = self._inbox.get()
        return group, True

    def _wait(self) -> _Pending | None:
        """Wait for a batch; when none comes for a while, do the checkpoint that is due."""
        if self._is_checkpoint_due:
            with contextlib.suppress(queue.Empty):
                return self._inbox.get(timeout=_CHECKPOINT_DELAY)
            self._is_checkpoint_due = False
            try:
                self._database.checkpoint()
            except sqlite3.Error as error:  # the changes are safe in the log of SQLite
                _log.warning("no checkpoint of %s: %s", self.path, error)
        return self._inbox.get()

    def _write_group(self, group: list[_Pending]) -> None:
        try:
            self._database.write([pending.batch for pending in group])
            self._is_checkpoint_due = True
        except Exception as error:  # reported to every caller; the writer must not end
            if len(group) > 1:
                # One batch may have caused the failure: give each its own transaction.
                for pending in group:
                    self._write_group([pending])
                return
            self._answer(group, translate(error, self.path))
        else:
            if self._manifests is not None:
                for pending in group:
                    self._manifests.follow(pending.batch, self.store_id, self.sequence)
            self._answer(group, None)

    def _answer(self, group: list[_Pending], error: SbxError | None) -> None:
        for pending in group:
            # The loop is closed when the program was interrupted; then no caller waits either.
            with contextlib.suppress(RuntimeError):
                pending.loop.call_soon_threadsafe(self._settle, pending, error)

    def _settle(self, pending: _Pending, error: SbxError | None) -> None:
        """Update the mirror and end the caller's wait; runs on the event loop."""
        changes = [] if error is not None else self._mirror(pending.batch)
        if not pending.done.cancelled():
            if error is None:
                pending.done.set_result(None)
            else:
                pending.done.set_exception(error)
        for listener in list(self.listeners):
            for before, after in changes:
                listener(before, after)

    def _mirror(self, batch: Batch) -> list[tuple[Row | None, Row | None]]:
        """Take a committed batch into the tables; gives each row before and after."""
        changes: list[tuple[Row | None, Row | None]] = []
        for row in batch.puts:
            table = self._tables[type(row)]
            changes.append((table.get(key_of(row)), row))
            table.set(key_of(row), row)
        for kind, key in batch.removals:
            changes.append((self._tables[kind].get(key), None))
            self._tables[kind].discard(key)
        return changes
