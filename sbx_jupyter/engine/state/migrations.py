"""The steps that upgrade a store from one version to the next; never edit a released step."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.state.integrity import (
    ALGORITHM_BYTES,
    Summary,
    combine,
    row_checksum,
    write_summary,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

TABLES: Final = (
    "sandboxes",
    "templates",
    "builds",
    "requests",
    "volumes",
    "secrets",
    "steps",
    "images",
    "merges",
)
"""The tables of rows; the log has another shape."""

UNCHECKED: Final = 3
"""The last version without checksums."""


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Give every row a checksum, and the store its summary."""
    total = bytes(ALGORITHM_BYTES)
    for table in TABLES:
        for key, record in connection.execute(f"SELECT key, record FROM {table}").fetchall():
            digest = row_checksum(table, key, 1, record)
            connection.execute(
                f"UPDATE {table} SET sequence = 1, digest = ? WHERE key = ?", (digest, key)
            )
            total = combine(total, [digest])
    write_summary(connection, Summary(os.urandom(16), 1, total))


_COLUMNS: Final = (
    "sequence INTEGER NOT NULL DEFAULT 0",
    "digest BLOB NOT NULL DEFAULT x''",
)
_Step = tuple["str | Callable[[sqlite3.Connection], None]", ...]

_STEPS: Final[tuple[_Step, ...]] = (
    (
        "CREATE TABLE sandboxes (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE templates (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE builds (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE requests (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE volumes (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE secrets (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
        """CREATE TABLE logs (
            number INTEGER PRIMARY KEY, sandbox_id TEXT NOT NULL, at REAL NOT NULL,
            record BLOB NOT NULL)""",
        "CREATE INDEX logs_at ON logs (at)",
    ),
    (
        "CREATE TABLE steps (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE images (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
    ),
    ("CREATE TABLE merges (key TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",),
    (
        *(
            f"ALTER TABLE {table} ADD COLUMN {column}"
            for table in TABLES
            for column in (
                "sequence INTEGER NOT NULL DEFAULT 0",
                "digest BLOB NOT NULL DEFAULT x''",
            )
        ),
        """CREATE TABLE integrity (
            key INTEGER PRIMARY KEY CHECK (key = 1), store BLOB NOT NULL,
            sequence INTEGER NOT NULL, total BLOB NOT NULL, digest BLOB NOT NULL)""",
        _add_checksums,
    ),
)
"""Step n (counted from 0) upgrades version n to version n + 1."""

VERSION: Final = len(_STEPS)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Upgrade the store from ``version`` to ``VERSION``, each step in one transaction."""
    for number in range(version, VERSION):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for work in _STEPS[number]:
                if isinstance(work, str):
                    connection.execute(work)
                else:
                    work(connection)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
