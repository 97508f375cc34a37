"""The steps that upgrade a store from one version to the next; never edit a released step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

_STEPS: Final[tuple[tuple[str, ...], ...]] = (
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
)
"""Step n (counted from 0) upgrades version n to version n + 1."""

VERSION: Final = len(_STEPS)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Upgrade the store from ``version`` to ``VERSION``, each step in one transaction."""
    for number in range(version, VERSION):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _STEPS[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
