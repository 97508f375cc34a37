"""The SQLite file of the store: opens and checks it, and writes batches. Everything here blocks."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from sbx_jupyter.engine.state.integrity import (
    SequenceFile,
    Summary,
    combine,
    damage,
    read_summary,
    row_checksum,
    write_summary,
)
from sbx_jupyter.engine.state.migrations import UNCHECKED, VERSION, migrate
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
    FailedPreconditionError,
    InternalError,
    NoSpaceError,
    SbxError,
    UnavailableError,
    see,
)

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator
    from pathlib import Path

_APPLICATION_ID: Final = 0x53425845
_LITTLE: Final = 1024 * 1024
_FEW: Final = 4
_FORGET_MANY: Final = """
DELETE FROM logs WHERE number IN (
    SELECT number FROM (
        SELECT number, row_number() OVER (PARTITION BY sandbox_id ORDER BY number DESC) AS place
        FROM logs
    ) WHERE place > ?
)
"""
KEYS: Final[dict[type[Row], tuple[str, str]]] = {
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
"""The table and the key field of each kind of row."""


def key_of(row: Row) -> str:
    """The key under which a row is stored."""
    return getattr(row, KEYS[type(row)][1])


@dataclass(slots=True)
class Batch:
    """Changes that are committed in one transaction."""

    puts: list[Row] = field(default_factory=list[Row])
    removals: list[tuple[type[Row], str]] = field(default_factory=list[tuple[type[Row], str]])
    logs: list[LogRow] = field(default_factory=list[LogRow])
    forget_logs_before: dt.datetime | None = None
    keep_logs: int | None = None
    """Number of log rows to keep of each sandbox, the newest ones; ``None`` keeps all."""

    def put(self, row: Row) -> Batch:
        self.puts.append(row)
        return self

    def remove(self, kind: type[Row], key: str) -> Batch:
        self.removals.append((kind, key))
        return self

    def log(self, row: LogRow) -> Batch:
        self.logs.append(row)
        return self


class Database:
    """An open file. One thread at a time may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_new = False
        """Whether ``open`` made the file."""

        self.is_complete = False
        """Whether the file beside it confirmed that no transaction is missing."""

        self._sequence_file = SequenceFile(path.with_name("engine.seq"))
        self._connection: sqlite3.Connection | None = None
        self._summary = Summary(b"", 0, b"")
        self._sums: dict[tuple[str, str], bytes] = {}

    @property
    def store_id(self) -> bytes:
        """A random value that tells this store from every other."""
        return self._summary.store_id

    @property
    def sequence(self) -> int:
        """The number of the last transaction."""
        return self._summary.sequence

    def open(self, beside: str) -> None:
        """Check the file, then open or make it, and upgrade it.

        ``beside`` says what else the data directory holds; empty for nothing. Raises
        ``DataLossError`` for a file that is damaged, missing or not complete, and
        ``FailedPreconditionError`` for one of a newer version or of another program; it is left as
        it is.
        """
        try:
            before = self._sequence_file.read()
            self.is_new = self._check_exists(beside, before)
            if not self.is_new:
                self.is_new = self._was_never_made(is_alone=before is None and not beside)
            if not self.is_new:
                self._check(before, is_alone=before is None and not beside)
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=10
            )
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        try:
            self._prepare(connection)
            self._sequence_file.open()
            self._sequence_file.write(self.store_id, self.sequence)
        except sqlite3.Error as error:
            connection.close()
            raise translate(error, self.path) from error
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def close(self) -> None:
        """Close the file; does nothing when it is closed."""
        self._sequence_file.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self) -> Iterator[tuple[type[Row], str, Row]]:
        """All rows, with their kinds and keys; raises ``DataLossError``."""
        connection = self._connected()
        for kind, (name, _) in KEYS.items():
            for key, record in connection.execute(f"SELECT key, record FROM {name}"):
                try:
                    yield kind, key, msgspec.json.decode(record, type=kind)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise damage(
                        f"{self.path} is damaged: row {key!r} of {name}: {error}"
                    ) from error

    def read_logs(self, since: float, limit: int) -> list[bytes]:
        """The newest ``limit`` log records since a Unix time, oldest first."""
        query = "SELECT record FROM logs WHERE at >= ? ORDER BY number DESC LIMIT ?"
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            rows = connection.execute(query, (since, limit)).fetchall()
        return [record for (record,) in reversed(rows)]

    def write(self, batches: list[Batch]) -> None:
        """Write all batches in one transaction. Raises ``SbxError``, ``sqlite3.Error``."""
        connection = self._connected()
        sequence = self.sequence + 1
        changed: dict[tuple[str, str], bytes | None] = {}
        connection.execute("BEGIN IMMEDIATE")
        try:
            for batch in batches:
                _apply(connection, batch, sequence, changed)
            summary = self._summary_after(sequence, changed)
            write_summary(connection, summary)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._summary = summary
        for where, digest in changed.items():
            if digest is None:
                self._sums.pop(where, None)
            else:
                self._sums[where] = digest
        self._sequence_file.write(self.store_id, self.sequence)

    def checkpoint(self) -> None:
        """Move the changes from the log of SQLite to the file. Raises ``sqlite3.Error``."""
        self._connected().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _summary_after(
        self, sequence: int, changed: dict[tuple[str, str], bytes | None]
    ) -> Summary:
        before = [self._sums[where] for where in changed if where in self._sums]
        after = [digest for digest in changed.values() if digest is not None]
        return Summary(self.store_id, sequence, combine(self._summary.total, [*before, *after]))

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            raise UnavailableError("the engine's store is closed")
        return self._connection

    # The checks. They read only: SQLite drops what it cannot read when it opens to write.

    def _check_exists(self, beside: str, before: tuple[bytes, int] | None) -> bool:
        """Whether there is no file yet; raises ``DataLossError`` when there should be one."""
        if self.path.exists() and self.path.stat().st_size:
            return False
        log = self.path.with_name(f"{self.path.name}-wal")
        if before is not None or beside or (log.exists() and log.stat().st_size):
            state = "empty" if self.path.exists() else "missing"
            raise damage(f"{self.path} is {state}, but there is {beside or 'a trace of it'}")
        return True

    def _was_never_made(self, *, is_alone: bool) -> bool:
        """Remove the remains of an engine that was killed while it made the file.

        Only then there is a rollback journal, which SQLite cannot apply without writing. Raises
        ``DataLossError`` when the file is not alone, as in the middle of a recovery.
        """
        journal = self.path.with_name(f"{self.path.name}-journal")
        if not journal.exists():
            return False
        if not is_alone:
            raise damage(f"{self.path} was not made to its end")
        self.path.unlink()
        journal.unlink()
        return True

    def _check(self, before: tuple[bytes, int] | None, *, is_alone: bool) -> None:
        address = f"file:{quote(os.fspath(self.path))}?mode=ro"
        reader = sqlite3.connect(address, uri=True, isolation_level=None, timeout=10)
        with contextlib.closing(reader) as connection:
            is_empty = not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if is_empty and is_alone:  # an engine was killed while it made the file
                return
            version = self._check_owner(connection)
            for (found,) in connection.execute("PRAGMA quick_check(1)"):
                if found != "ok":
                    raise damage(f"{self.path} is damaged: {found}")
            if version > UNCHECKED:
                summary = read_summary(connection, self.path)
                self._check_rows(connection, summary)
                self.is_complete = self._check_sequence(summary, before)

    def _check_owner(self, connection: sqlite3.Connection) -> int:
        """Return the version of the format; raises ``FailedPreconditionError``."""
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if owner != _APPLICATION_ID:
            raise FailedPreconditionError(
                f"{self.path} is a database of another program, or its head is damaged: choose "
                f"another data directory, or run `jupyter sbx recover`{see('recovery')}"
            )
        if version > VERSION:
            raise FailedPreconditionError(
                f"{self.path} was written by a newer version (format {version}, this one knows "
                f"{VERSION}), or its head is damaged: upgrade sbx-jupyter, choose another data "
                f"directory, or run `jupyter sbx recover`{see('recovery')}"
            )
        return version

    def _check_rows(self, connection: sqlite3.Connection, summary: Summary) -> None:
        total = bytes(len(summary.total))
        for name, _ in KEYS.values():
            query = f"SELECT key, sequence, record, digest FROM {name}"
            for key, sequence, record, digest in connection.execute(query):
                if not is_intact(name, key, sequence, record, digest):
                    raise damage(f"{self.path} is damaged: row {key!r} of {name}")
                total = combine(total, [digest])
        if total != summary.total:
            raise damage(f"{self.path} is damaged: rows are missing or of another time")

    def _check_sequence(self, summary: Summary, before: tuple[bytes, int] | None) -> bool:
        """Whether the file beside the store confirms that it is complete."""
        if before is None:
            return False
        store_id, sequence = before
        if store_id != summary.store_id:
            raise damage(f"{self.path} is not the store of this directory")
        if sequence > summary.sequence:
            raise damage(
                f"{self.path} is not complete: its last {sequence - summary.sequence} changes "
                f"are missing"
            )
        return True

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL: acknowledged changes survive a power loss too. The fsync took 0.25 ms on the disks
        # we measured, and batches that are committed together share one.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        migrate(connection, version)
        # Without this, all changes would stay in the log of SQLite for as long as they are few.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._summary = read_summary(connection, self.path)
        for name, _ in KEYS.values():
            for key, digest in connection.execute(f"SELECT key, digest FROM {name}"):
                self._sums[name, key] = digest


def is_intact(name: str, key: Any, sequence: Any, record: Any, digest: Any) -> bool:
    """Whether the values of a stored row have the right types and checksum."""
    return (
        isinstance(key, str)
        and isinstance(sequence, int)
        and 0 <= sequence < 1 << 63
        and isinstance(record, bytes)
        and row_checksum(name, key, sequence, record) == digest
    )


def _apply(
    connection: sqlite3.Connection,
    batch: Batch,
    sequence: int,
    changed: dict[tuple[str, str], bytes | None],
) -> None:
    """Write one batch; ``changed`` gets the checksums of its rows, ``None`` for removed ones."""
    for row in batch.puts:
        name, key, record = KEYS[type(row)][0], key_of(row), msgspec.json.encode(row)
        digest = row_checksum(name, key, sequence, record)
        connection.execute(
            f"INSERT OR REPLACE INTO {name} (key, record, sequence, digest) VALUES (?, ?, ?, ?)",
            (key, record, sequence, digest),
        )
        changed[name, key] = digest
    for kind, key in batch.removals:
        connection.execute(f"DELETE FROM {KEYS[kind][0]} WHERE key = ?", (key,))
        changed[KEYS[kind][0], key] = None
    for log in batch.logs:
        connection.execute(
            "INSERT INTO logs (sandbox_id, at, record) VALUES (?, ?, ?)",
            (log.sandbox_id, log.timestamp.timestamp(), msgspec.json.encode(log)),
        )
    if batch.forget_logs_before is not None:
        connection.execute("DELETE FROM logs WHERE at < ?", (batch.forget_logs_before.timestamp(),))
    if batch.keep_logs is not None:
        connection.execute(_FORGET_MANY, (batch.keep_logs,))


def translate(error: BaseException, path: Path) -> SbxError:
    """Turn an error of SQLite into a domain error; an ``SbxError`` stays as it is."""
    if isinstance(error, SbxError):
        return error
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return NoSpaceError(f"no space left to write {path}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return damage(f"{path} is damaged: {error}")
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _is_full(path):
        return NoSpaceError(f"no space left to write {path}")
    return InternalError(f"{path}: {error}")


def _is_full(path: Path) -> bool:
    """Whether there is little space, or no room for the files that SQLite makes beside its own."""
    with contextlib.suppress(OSError):
        found = os.statvfs(path.parent)
        no_files = found.f_files > 0 and found.f_favail < _FEW
        return no_files or found.f_bavail * found.f_frsize < _LITTLE
    return False
