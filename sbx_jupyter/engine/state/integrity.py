"""Finds out whether the store is whole: checksums of rows, and a sequence that is kept twice.

SQLite notices neither a changed value nor the loss of the last transactions, and loses rows with a
damaged page. So each row has a checksum, the store has one over all rows, and the number of the
last transaction is also in a small file beside the store.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from sbx_jupyter.errors import DataLossError, see

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from pathlib import Path

_log = logging.getLogger(__name__)

REMEDY: Final = (
    "nothing was changed or removed, and running sandboxes go on: put back a copy of the whole "
    f"data directory, or run `jupyter sbx recover`{see('recovery')}"
)
"""The end of every message about damage."""

ALGORITHM_BYTES: Final = 16
_SEQUENCE: Final = struct.Struct("<4s16sQ")
_MARK: Final = b"SBXQ"


def damage(what: str) -> DataLossError:
    """The error for state that is not whole; ``what`` is a clause without a full stop."""
    return DataLossError(f"{what}; {REMEDY}")


def checksum(*parts: bytes) -> bytes:
    """A checksum of several byte strings, as if each had its length before it."""
    found = hashlib.blake2b(digest_size=ALGORITHM_BYTES)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def row_checksum(table: str, key: str, sequence: int, record: bytes) -> bytes:
    """The checksum of a stored row."""
    return checksum(table.encode(), key.encode(), sequence.to_bytes(8, "little"), record)


class Summary(NamedTuple):
    """The one row of the table ``integrity``."""

    store_id: bytes
    sequence: int
    """The number of the last transaction."""

    total: bytes
    """All row checksums, combined by exclusive or."""

    def checksum(self) -> bytes:
        return checksum(self.store_id, self.sequence.to_bytes(8, "little"), self.total)


def combine(total: bytes, sums: Iterable[bytes]) -> bytes:
    """Add checksums to a total, or take them away if they are in it."""
    number = int.from_bytes(total, "little")
    for each in sums:
        number ^= int.from_bytes(each, "little")
    return number.to_bytes(ALGORITHM_BYTES, "little")


def write_summary(connection: sqlite3.Connection, summary: Summary) -> None:
    """Store the summary, in the transaction of the rows that it is of."""
    connection.execute(
        "INSERT OR REPLACE INTO integrity (key, store, sequence, total, digest) "
        "VALUES (1, ?, ?, ?, ?)",
        (summary.store_id, summary.sequence, summary.total, summary.checksum()),
    )


def read_summary(connection: sqlite3.Connection, path: Path) -> Summary:
    """Read the summary; raises ``DataLossError`` when it is missing or damaged."""
    found = connection.execute("SELECT store, sequence, total, digest FROM integrity").fetchall()
    if len(found) != 1:
        raise damage(f"{path} is damaged: it has no summary of its rows")
    store_id, sequence, total, digest = found[0]
    if not (isinstance(store_id, bytes) and isinstance(sequence, int) and isinstance(total, bytes)):
        raise damage(f"{path} is damaged: the summary of its rows")
    summary = Summary(store_id, sequence, total)
    if not 0 <= sequence < 1 << 63 or summary.checksum() != digest:
        raise damage(f"{path} is damaged: the summary of its rows")
    return summary


@dataclass(slots=True)
class SequenceFile:
    """The number of the last transaction, kept beside the store.

    It is written after each commit and without fsync, so after a crash it may be behind the store,
    never ahead of it.
    """

    path: Path
    _descriptor: int = -1

    def read(self) -> tuple[bytes, int] | None:
        """The store's id and sequence; ``None`` when the file is missing or damaged."""
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return None
        body, digest = raw[: _SEQUENCE.size], raw[_SEQUENCE.size :]
        if len(body) != _SEQUENCE.size or checksum(body) != digest:
            _log.warning("%s is damaged and is made anew", self.path)
            return None
        mark, store_id, sequence = _SEQUENCE.unpack(body)
        return (store_id, sequence) if mark == _MARK else None

    def open(self) -> None:
        """Open the file for ``write``; raises ``OSError``."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o600)
        # One that was damaged may be longer; ``write`` keeps the length.
        os.ftruncate(self._descriptor, _SEQUENCE.size + ALGORITHM_BYTES)

    def write(self, store_id: bytes, sequence: int) -> None:
        """Keep the number of a committed transaction; a failure is logged, not raised."""
        body = _SEQUENCE.pack(_MARK, store_id, sequence)
        try:
            os.pwrite(self._descriptor, body + checksum(body), 0)
        except OSError as error:  # the transaction is in the store; the next one tries again
            _log.warning("%s could not be written: %s", self.path, error)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
