"""The log of each sandbox, kept in memory for the log routes (interface 1.3, S17 and S18)."""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final, Literal

from sbx_jupyter.engine.state.rows import LogRow, now
from sbx_jupyter.errors import InvalidArgumentError

Level = Literal["debug", "info", "warn", "error"]

RETENTION: Final = dt.timedelta(days=7)
MAX_PER_SANDBOX: Final = 1000
MAX_SANDBOXES: Final = 2000
MAX_LIMIT: Final = 1000
MAX_SEARCH: Final = 256

_RANK: Final[dict[str, int]] = {"debug": 0, "info": 1, "warn": 2, "error": 3}


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Selects entries: from ``cursor_ms`` (Unix time) in ``direction``, of ``level`` or above.

    ``search`` is found in the message, in upper or lower case.
    """

    cursor_ms: int | None = None
    direction: Literal["forward", "backward"] = "backward"
    level: Level | None = None
    limit: int = MAX_LIMIT
    search: str | None = None


def entry(sandbox_id: str, level: Level, message: str, **fields: str) -> LogRow:
    """A log row with the current time."""
    return LogRow(
        sandbox_id=sandbox_id, timestamp=now(), level=level, message=message, fields=fields
    )


class Journal:
    """The newest log entries in memory, bounded per sandbox and in the number of sandboxes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, deque[LogRow]] = OrderedDict()

    def add(self, row: LogRow) -> None:
        kept = self._entries.get(row.sandbox_id)
        if kept is None:
            kept = self._entries[row.sandbox_id] = deque(maxlen=MAX_PER_SANDBOX)
        self._entries.move_to_end(row.sandbox_id)
        kept.append(row)
        if len(self._entries) > MAX_SANDBOXES:
            self._entries.popitem(last=False)

    def __contains__(self, sandbox_id: str) -> bool:
        return sandbox_id in self._entries

    def select(self, sandbox_id: str, wanted: LogFilter) -> list[LogRow]:
        """Entries that match, in the order of the direction and at most ``limit`` of them.

        Raises ``InvalidArgumentError`` for a limit out of range or a search text that is too long.
        """
        if not 0 <= wanted.limit <= MAX_LIMIT:
            raise InvalidArgumentError(f"limit must be between 0 and {MAX_LIMIT}")
        if wanted.search is not None and len(wanted.search) > MAX_SEARCH:
            raise InvalidArgumentError(f"search must have at most {MAX_SEARCH} characters")
        rows = [row for row in self._entries.get(sandbox_id, ()) if _matches(row, wanted)]
        if wanted.direction == "backward":
            rows.reverse()
        return rows[: wanted.limit]


def _matches(row: LogRow, wanted: LogFilter) -> bool:
    at = row.timestamp.timestamp() * 1000
    window = RETENTION.total_seconds() * 1000
    if wanted.direction == "forward":
        start = wanted.cursor_ms or 0
        is_inside = at >= start and (not start or at <= start + window)
    else:
        end = wanted.cursor_ms
        is_inside = end is None or end - window <= at <= end
    return (
        is_inside
        and (wanted.level is None or _RANK[row.level] >= _RANK[wanted.level])
        and (wanted.search is None or wanted.search.lower() in row.message.lower())
    )
