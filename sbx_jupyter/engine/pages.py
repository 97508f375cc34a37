"""Cuts lists into pages, whose tokens say where the next one begins (interface 1.0.6)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from sbx_jupyter.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
Order = Literal["asc", "desc"]

MAX_PAGE: Final = 100
_ASCENDING: Final = "asc"
_ID: Final = re.compile(r"[a-zA-Z0-9:/._-]+\Z")
_ASCENDING_KEY: Final = re.compile(r"([a-z0-9]+)__asc\Z")
"""Only sandboxes are listed in this order. Names of snapshots may have underscores."""


def sort(
    items: Iterable[T], position: Callable[[T], tuple[dt.datetime, str]], order: Order = "desc"
) -> list[T]:
    """Order elements by their time and, where it is equal, by ascending key in both orders."""
    found = sorted(items, key=lambda item: position(item)[1])
    found.sort(key=lambda item: position(item)[0], reverse=order != _ASCENDING)
    return found


def cut(
    items: Iterable[T],
    position: Callable[[T], tuple[dt.datetime, str]],
    *,
    limit: int | None,
    token: str | None,
    order: Order = "desc",
) -> tuple[list[T], str | None]:
    """The page that begins at ``token``, and the token of the next; ``None`` on the last page.

    ``position`` gives the time and the key of an element. A ``limit`` of ``None`` puts all of the
    rest on one page. Raises ``InvalidArgumentError`` for a bad token or limit.
    """
    cursor = parse_cursor(token, order) if token else None
    if limit is not None:
        check_limit(limit)
    found = sort(items, position, order)
    if cursor is not None:
        found = [item for item in found if cursor.precedes(*position(item))]
    page = found[:limit]
    if not page or len(page) == len(found):
        return page, None
    return page, Cursor(*position(page[-1]), order).format()


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
        at, _, key = text.decode().partition("__")
        ascending = _ASCENDING_KEY.match(key)
        cursor = Cursor(
            dt.datetime.fromisoformat(at),
            ascending[1] if ascending else key,
            "asc" if ascending else "desc",
        )
    except (ValueError, binascii.Error, UnicodeDecodeError) as error:
        raise InvalidArgumentError("Invalid next token") from error
    if cursor.order != order or not _ID.match(cursor.key):
        raise InvalidArgumentError("Invalid next token")
    if cursor.at.tzinfo is None:
        raise InvalidArgumentError("Invalid next token")
    return cursor


def check_limit(limit: int) -> int:
    """Return a page size; raise ``InvalidArgumentError`` unless it is in 1 to ``MAX_PAGE``."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidArgumentError(f"limit must be between 1 and {MAX_PAGE}")
    return limit
