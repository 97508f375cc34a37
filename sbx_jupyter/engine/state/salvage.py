"""Reads what can still be read of a damaged store; blocking, and never writes to it."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from sbx_jupyter.engine.state.database import KEYS, is_intact
from sbx_jupyter.engine.state.integrity import read_summary
from sbx_jupyter.engine.state.rows import LogRow, Row
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_log = logging.getLogger(__name__)
_MAX_LOGS: Final = 100_000


@dataclass(slots=True)
class Salvage:
    """The intact rows of a store."""

    store_id: bytes | None = None
    """``None`` when it cannot be read, or in a store of an earlier version."""

    rows: dict[tuple[str, str], tuple[int, Row]] = field(
        default_factory=dict[tuple[str, str], tuple[int, Row]]
    )
    """Rows by table and key, each with the number of the transaction that wrote it."""

    logs: list[LogRow] = field(default_factory=list[LogRow])

    @classmethod
    def of(cls, path: Path) -> Salvage:
        """Read what is still intact in a file; empty if it is not a store of the engine."""
        found = cls()
        if not path.exists() or not path.stat().st_size:
            return found
        address = f"file:{quote(os.fspath(path))}?mode=ro"
        with contextlib.suppress(sqlite3.Error):
            reader = sqlite3.connect(address, uri=True, isolation_level=None, timeout=10)
            with contextlib.closing(reader) as connection:
                with contextlib.suppress(sqlite3.Error, SbxError):
                    found.store_id = read_summary(connection, path).store_id
                for kind, (name, _) in KEYS.items():
                    found._read(connection, kind, name)
                found._read_logs(connection)
        return found

    def _read(self, connection: sqlite3.Connection, kind: type[Row], name: str) -> None:
        # From both ends: a page that cannot be read hides what comes after it.
        for order in ("ASC", "DESC"):
            query = f"SELECT key, sequence, record, digest FROM {name} ORDER BY key {order}"
            for key, sequence, record, digest in _fetch(connection, query):
                if not is_intact(name, key, sequence, record, digest):
                    continue
                with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                    self.rows[name, key] = (sequence, msgspec.json.decode(record, type=kind))

    def _read_logs(self, connection: sqlite3.Connection) -> None:
        query = f"SELECT record FROM logs ORDER BY number DESC LIMIT {_MAX_LOGS}"
        for (record,) in _fetch(connection, query):
            if isinstance(record, bytes):
                with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                    self.logs.append(msgspec.json.decode(record, type=LogRow))
        self.logs.reverse()


def _fetch(connection: sqlite3.Connection, query: str) -> Iterator[Any]:
    """The rows of a query until the first that cannot be read."""
    try:
        yield from connection.execute(query)
    except sqlite3.Error as error:
        _log.warning("%s: %s", query, error)
