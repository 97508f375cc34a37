"""Stores the engine's rows in SQLite with one writer thread, and mirrors them in memory.

A change is in the file before it is acknowledged. Reads use the mirror and never touch the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import shutil
import sqlite3
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from sbx_jupyter.engine.state.migrations import VERSION, migrate
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
from sbx_jupyter.errors import (
    DataLossError,
    FailedPreconditionError,
    InternalError,
    NoSpaceError,
    SbxError,
    UnavailableError,
)

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterator
    from pathlib import Path

R = TypeVar("R", bound=Row)

_MAX_GROUP: Final = 256
_FORGET_MANY: Final = """
DELETE FROM logs WHERE number IN (
    SELECT number FROM (
        SELECT number, row_number() OVER (PARTITION BY sandbox_id ORDER BY number DESC) AS place
        FROM logs
    ) WHERE place > ?
)
"""
_APPLICATION_ID: Final = 0x53425845
_LITTLE: Final = 1024 * 1024
_KEYS: Final[dict[type[Row], tuple[str, str]]] = {
    SandboxRow: ("sandboxes", "sandbox_id"),
    TemplateRow: ("templates", "template_id"),
    BuildRow: ("builds", "build_id"),
    RequestRow: ("requests", "key"),
    VolumeRow: ("volumes", "volume_id"),
    SecretRow: ("secrets", "secret_id"),
    StepRow: ("steps", "key"),
    ImageRow: ("images", "key"),
    MergeRow: ("merges", "key"),
}


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
class Batch:
    """Changes that are committed in one transaction."""

    puts: list[Row] = field(default_factory=list[Row])
    removals: list[tuple[type[Row], str]] = field(default_factory=list[tuple[type[Row], str]])
    logs: list[LogRow] = field(default_factory=list[LogRow])
    forget_logs_before: dt.datetime | None = None
    keep_logs: int | None = None
    """How many log rows of each sandbox to keep, the newest; ``None`` keeps all."""

    def put(self, row: Row) -> Batch:
        self.puts.append(row)
        return self

    def remove(self, kind: type[Row], key: str) -> Batch:
        self.removals.append((kind, key))
        return self

    def log(self, row: LogRow) -> Batch:
        self.logs.append(row)
        return self


@dataclass(slots=True)
class _Pending:
    batch: Batch
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


class Store:
    """The tables of the engine's state, and the log of all sandboxes."""

    def __init__(
        self, path: Path, *, on_commit: Callable[[float], None] = lambda seconds: None
    ) -> None:
        """``on_commit`` is called with the seconds that each caller of ``commit`` waited."""
        self.path = path
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
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open or make the file, upgrade it and load the mirror.

        Raises ``DataLossError`` for a damaged file and ``FailedPreconditionError`` for a file of a
        newer version or of another program; the file is left as it is.
        """
        await asyncio.to_thread(self._open)
        self._writer = threading.Thread(target=self._write_forever, name="sbx-store", daemon=True)
        self._writer.start()

    async def close(self) -> None:
        """Write the pending changes, then close the file."""
        if self._writer is not None:
            self._inbox.put(None)
            await asyncio.to_thread(self._writer.join)
            self._writer = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

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
        rows = await asyncio.to_thread(self._read_logs, since.timestamp(), limit)
        return [msgspec.json.decode(record, type=LogRow) for record in rows]

    # The methods below run before the writer thread starts or in it, except ``_settle``.

    def _open(self) -> None:
        try:
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=10
            )
        except sqlite3.Error as error:
            raise _translate(error, self.path) from error
        try:
            self._prepare(connection)
            self._load(connection)
        except sqlite3.Error as error:
            connection.close()
            raise _translate(error, self.path) from error
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        is_new = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if not is_new and owner != _APPLICATION_ID:
            raise FailedPreconditionError(f"{self.path} is a database of another program")
        if version > VERSION:
            raise FailedPreconditionError(
                f"{self.path} was written by a newer version (format {version}, this one knows "
                f"{VERSION}); upgrade sbx-jupyter or choose another data directory"
            )
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise DataLossError(f"{self.path} is damaged: {found}")
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL: acknowledged changes survive a power loss too. The fsync took 0.25 ms on the disks
        # we measured, and batches that are committed together share one.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        migrate(connection, version)

    def _load(self, connection: sqlite3.Connection) -> None:
        for kind, (name, _) in _KEYS.items():
            table = self._tables[kind]
            for key, record in connection.execute(f"SELECT key, record FROM {name}"):
                try:
                    table.set(key, msgspec.json.decode(record, type=kind))
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise DataLossError(
                        f"{self.path} is damaged: row {key!r} of {name}: {error}"
                    ) from error

    def _read_logs(self, since: float, limit: int) -> list[bytes]:
        query = "SELECT record FROM logs WHERE at >= ? ORDER BY number DESC LIMIT ?"
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            rows = connection.execute(query, (since, limit)).fetchall()
        return [record for (record,) in reversed(rows)]

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
        pending = self._inbox.get()
        while pending is not None:
            group.append(pending)
            if len(group) >= _MAX_GROUP or self._inbox.empty():
                return group, False
            pending = self._inbox.get()
        return group, True

    def _write_group(self, group: list[_Pending]) -> None:
        try:
            self._write([pending.batch for pending in group])
        except Exception as error:  # reported to every caller; the writer must not end
            if len(group) > 1:
                # One batch may have caused the failure: give each its own transaction.
                for pending in group:
                    self._write_group([pending])
                return
            self._answer(group, _translate(error, self.path))
        else:
            self._answer(group, None)

    def _write(self, batches: list[Batch]) -> None:
        connection = self._connection
        if connection is None:
            raise UnavailableError("the engine's store is closed")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for batch in batches:
                _apply(connection, batch)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _answer(self, group: list[_Pending], error: SbxError | None) -> None:
        for pending in group:
            # The loop is closed when the program was interrupted; then no caller waits either.
            with contextlib.suppress(RuntimeError):
                pending.loop.call_soon_threadsafe(self._settle, pending, error)

    def _settle(self, pending: _Pending, error: SbxError | None) -> None:
        """Update the mirror and end the caller's wait; runs on the event loop."""
        if error is None:
            for row in pending.batch.puts:
                self._tables[type(row)].set(getattr(row, _KEYS[type(row)][1]), row)
            for kind, key in pending.batch.removals:
                self._tables[kind].discard(key)
        if pending.done.cancelled():
            return
        if error is None:
            pending.done.set_result(None)
        else:
            pending.done.set_exception(error)


def _apply(connection: sqlite3.Connection, batch: Batch) -> None:
    for row in batch.puts:
        name, key = _KEYS[type(row)]
        connection.execute(
            f"INSERT OR REPLACE INTO {name} (key, record) VALUES (?, ?)",
            (getattr(row, key), msgspec.json.encode(row)),
        )
    for kind, key in batch.removals:
        connection.execute(f"DELETE FROM {_KEYS[kind][0]} WHERE key = ?", (key,))
    for log in batch.logs:
        connection.execute(
            "INSERT INTO logs (sandbox_id, at, record) VALUES (?, ?, ?)",
            (log.sandbox_id, log.timestamp.timestamp(), msgspec.json.encode(log)),
        )
    if batch.forget_logs_before is not None:
        connection.execute("DELETE FROM logs WHERE at < ?", (batch.forget_logs_before.timestamp(),))
    if batch.keep_logs is not None:
        connection.execute(_FORGET_MANY, (batch.keep_logs,))


def _translate(error: BaseException, path: Path) -> SbxError:
    """Turn an error of SQLite into a domain error; an ``SbxError`` stays as it is."""
    if isinstance(error, SbxError):
        return error
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return NoSpaceError(f"no space left to write {path}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DataLossError(f"{path} is damaged: {error}")
    if code == sqlite3.SQLITE_IOERR and _is_full(path):
        return NoSpaceError(f"no space left to write {path}")
    return InternalError(f"{path}: {error}")


def _is_full(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(path.parent).free < _LITTLE
    return False
