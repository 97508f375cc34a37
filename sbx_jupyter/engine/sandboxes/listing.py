"""Filters, order and cursors of lists (interface 1.0.6 and 1.3, S3)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from sbx_jupyter.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbx_jupyter.engine.state.rows import SandboxRow

Order = Literal["asc", "desc"]

MAX_PAGE: Final = 100
_ASCENDING: Final = "asc"
_ID: Final = re.compile(r"[a-zA-Z0-9:/._-]+\Z")


@dataclass(frozen=True, slots=True)
class SandboxFilter:
    """Selects the sandboxes of a list; a ``limit`` of ``None`` is for version 1, without pages."""

    states: frozenset[Literal["running", "paused"]] = frozenset({"running", "paused"})
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    template: str | None = None
    started_after: dt.datetime | None = None
    order: Order = "desc"
    limit: int | None = MAX_PAGE
    next_token: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page, the token of the next one, and how many running sandboxes match the filter.

    ``next_token`` is ``None`` on the last page.
    """

    sandboxes: list[SandboxRow]
    next_token: str | None
    total_running: int


class Cursor(NamedTuple):
    """The position of the last element of a page; the next page begins after it."""

    at: dt.datetime
    key: str
    order: Order

    def format(self) -> str:
        """The cursor as a page token, which ``parse_cursor`` reads."""
        suffix = f"__{_ASCENDING}" if self.order == _ASCENDING else ""
        text = f"{self.at.astimezone(dt.UTC).isoformat()}__{self.key}{suffix}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def precedes(self, at: dt.datetime, key: str) -> bool:
        """Whether the element with this time and key comes after the cursor."""
        if at == self.at:
            return key > self.key
        return (at > self.at) == (self.order == _ASCENDING)


def parse_cursor(token: str, order: Order) -> Cursor:
    """Parse a page token; raises ``InvalidArgumentError`` unless it is a cursor of this order."""
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        at, key, *suffix = text.decode().split("__")
        cursor = Cursor(dt.datetime.fromisoformat(at), key, "asc" if suffix else "desc")
    except (ValueError, binascii.Error, UnicodeDecodeError) as error:
        raise InvalidArgumentError("Invalid next token") from error
    if suffix not in ([], [_ASCENDING]) or cursor.order != order or not _ID.match(key):
        raise InvalidArgumentError("Invalid next token")
    if cursor.at.tzinfo is None:
        raise InvalidArgumentError("Invalid next token")
    return cursor


def check_limit(limit: int) -> int:
    """Return a page size; raise ``InvalidArgumentError`` unless it is in 1 to ``MAX_PAGE``."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidArgumentError(f"limit must be between 1 and {MAX_PAGE}")
    return limit


def select(
    rows: Iterable[SandboxRow], wanted: SandboxFilter, template_id: str | None = None
) -> Page:
    """The page of ``rows`` that a filter selects; ``template_id`` is its template, resolved.

    Raises ``InvalidArgumentError`` for a bad cursor or limit.
    """
    cursor = None
    if wanted.next_token:
        cursor = parse_cursor(wanted.next_token, wanted.order)
    limit = None if wanted.limit is None else check_limit(wanted.limit)
    found = [row for row in rows if _matches(row, wanted, template_id)]
    total = sum(row.state.reported == "running" for row in found)
    # Equal times are ordered by ascending id in both orders, hence two stable sorts.
    found.sort(key=lambda row: row.sandbox_id)
    found.sort(key=lambda row: row.started_at, reverse=wanted.order == "desc")
    if cursor is not None:
        found = [row for row in found if cursor.precedes(row.started_at, row.sandbox_id)]
    page = found if limit is None else found[:limit]
    token = None
    if page and len(page) < len(found):
        token = Cursor(page[-1].started_at, page[-1].sandbox_id, wanted.order).format()
    return Page(page, token, total)


def _matches(row: SandboxRow, wanted: SandboxFilter, template_id: str | None) -> bool:
    return (
        row.state.is_shown
        and row.state.reported in wanted.states
        and (template_id is None or row.template_id == template_id)
        and (wanted.started_after is None or row.started_at >= wanted.started_after)
        and wanted.metadata.items() <= row.metadata.items()
    )
