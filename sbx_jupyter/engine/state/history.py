"""Metrics over time: one bounded file of fixed-size readings per sandbox, mirrored in memory."""

from __future__ import annotations

import datetime as dt
import os
import struct
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.state import leftovers
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.platform import SandboxMetric

if TYPE_CHECKING:
    from pathlib import Path

_READING: Final = struct.Struct("<dqdqqqqq")
_MAX_READINGS: Final = 17280
"""A day at one reading per 5 s: 1.1 MB."""

_SLACK: Final = 1024
REPEATED_AT_ONCE: Final = 60
"""Repeated readings of an idle sandbox that are written together: five minutes at one per 5 s."""


class History:
    """The readings of all sandboxes. ``add`` changes memory only; ``write`` writes the files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._readings: dict[str, bytearray] = {}
        self._unwritten: dict[str, bytearray] = {}
        self._due: set[str] = set()
        """The sandboxes whose unwritten readings are to be written soon."""
        self._forgotten: set[str] = set()

    def load(self, known: set[str]) -> None:
        """Read the files of known sandboxes and remove the others; blocking, once, at start."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        for name in leftovers.files(self._directory, leftovers.SANDBOX_ID):
            path = self._directory / name
            if name not in known:
                path.unlink(missing_ok=True)
                continue
            stored = path.read_bytes()
            whole = len(stored) - len(stored) % _READING.size
            if whole != len(stored):
                os.truncate(path, whole)
            self._readings[path.name] = bytearray(stored[:whole])

    def add(self, sandbox_id: str, metric: SandboxMetric) -> None:
        packed = _READING.pack(
            metric.timestamp.timestamp(),
            metric.cpu_count,
            metric.cpu_used_pct,
            metric.mem_used,
            metric.mem_total,
            metric.mem_cache,
            metric.disk_used,
            metric.disk_total,
        )
        self._append(sandbox_id, packed)
        self._due.add(sandbox_id)

    def repeat(self, sandbox_id: str, at: float) -> bool:
        """Add the last reading again, of a sandbox that has done nothing since.

        ``at`` is the Unix time; false if there is no reading. It is written with some others.
        """
        readings = self._readings.get(sandbox_id)
        if not readings:
            return False
        _, cpu_count, _, *rest = _READING.unpack_from(readings, len(readings) - _READING.size)
        unwritten = self._append(sandbox_id, _READING.pack(at, cpu_count, 0.0, *rest))
        if len(unwritten) >= REPEATED_AT_ONCE * _READING.size:
            self._due.add(sandbox_id)
        return True

    def _append(self, sandbox_id: str, packed: bytes) -> bytearray:
        """Add a reading; gives those that are not written."""
        self._readings.setdefault(sandbox_id, bytearray()).extend(packed)
        unwritten = self._unwritten.setdefault(sandbox_id, bytearray())
        unwritten.extend(packed)
        return unwritten

    def take_unwritten(self, *, every: bool = False) -> dict[str, tuple[bytes, bool] | None]:
        """Return and clear what ``write`` must do, or all that it could do.

        By sandbox id: the bytes, and whether they replace the file (else they are appended);
        ``None`` for a file to remove.
        """
        work: dict[str, tuple[bytes, bool] | None] = dict.fromkeys(self._forgotten)
        self._forgotten.clear()
        for sandbox_id in list(self._unwritten) if every else self._due:
            unwritten = self._unwritten.pop(sandbox_id, None)
            readings = self._readings.get(sandbox_id)
            if readings is None or unwritten is None:
                continue
            work[sandbox_id] = (bytes(unwritten), False)
            if len(readings) > (_MAX_READINGS + _SLACK) * _READING.size:
                del readings[: len(readings) - _MAX_READINGS * _READING.size]
                work[sandbox_id] = (bytes(readings), True)
        self._due.clear()
        return work

    def write(self, work: dict[str, tuple[bytes, bool] | None]) -> None:
        """Write and remove the files; blocking, for a thread. Raises ``OSError``."""
        for sandbox_id, change in work.items():
            path = self._directory / sandbox_id
            if change is None:
                path.unlink(missing_ok=True)
                continue
            packed, replaces = change
            if replaces:
                temporary = self._directory / f"{sandbox_id}.new"
                temporary.write_bytes(packed)
                temporary.replace(path)
            else:
                with path.open("ab") as file:
                    file.write(packed)

    def forget(self, sandbox_id: str) -> None:
        """Remove the readings of a sandbox, from memory now and from disk by ``write``."""
        self._unwritten.pop(sandbox_id, None)
        if self._readings.pop(sandbox_id, None) is not None:
            self._forgotten.add(sandbox_id)

    def latest(self, sandbox_id: str) -> SandboxMetric | None:
        """The newest reading of a sandbox; ``None`` if there is none."""
        readings = self._readings.get(sandbox_id)
        return _unpack(readings, len(readings) // _READING.size - 1) if readings else None

    def between(
        self, sandbox_id: str, start: int | None = None, end: int | None = None
    ) -> list[SandboxMetric]:
        """Readings from ``start`` to ``end`` (Unix seconds, both inclusive), oldest first.

        ``None`` means no bound. Raises ``InvalidArgumentError`` when start is after end.
        """
        if start is not None and end is not None and start > end:
            raise InvalidArgumentError("start cannot be after end")
        readings = self._readings.get(sandbox_id, bytearray())
        first = 0 if start is None else _find(readings, start)
        last = len(readings) // _READING.size if end is None else _find(readings, end + 1)
        return [_unpack(readings, number) for number in range(first, last)]


def _find(readings: bytearray, at: float) -> int:
    """The index of the first reading at or after ``at`` (Unix seconds)."""
    low, high = 0, len(readings) // _READING.size
    while low < high:
        middle = (low + high) // 2
        if _READING.unpack_from(readings, middle * _READING.size)[0] < at:
            low = middle + 1
        else:
            high = middle
    return low


def _unpack(readings: bytearray, number: int) -> SandboxMetric:
    at, cpu_count, cpu_used_pct, mem_used, mem_total, mem_cache, disk_used, disk_total = (
        _READING.unpack_from(readings, number * _READING.size)
    )
    return SandboxMetric(
        timestamp=dt.datetime.fromtimestamp(at, dt.UTC),
        timestamp_unix=int(at),
        cpu_count=cpu_count,
        cpu_used_pct=cpu_used_pct,
        mem_used=mem_used,
        mem_total=mem_total,
        mem_cache=mem_cache,
        disk_used=disk_used,
        disk_total=disk_total,
    )
