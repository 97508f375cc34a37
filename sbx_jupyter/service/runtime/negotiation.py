"""HTTP content negotiation of files: coding, ranges and conditions (interface 4.4)."""

from __future__ import annotations

import re
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from sbx_jupyter.service.answers import HttpError

if TYPE_CHECKING:
    from tornado.httputil import HTTPHeaders

_CONDITIONS: Final = ("Range", "If-Range", "If-None-Match", "If-Modified-Since")
_TOKEN: Final = re.compile(r"[!#$&+.^_`|~0-9A-Za-z-]+\Z")
_RANGE: Final = re.compile(r"\s*(\d{0,18})\s*-\s*(\d{0,18})\s*\Z")
_MAX_RANGES: Final = 64


class Span(NamedTuple):
    """The bytes from ``start`` to before ``end``."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def choose_coding(headers: HTTPHeaders) -> str:
    """``identity`` or ``gzip``; raises ``HttpError`` 406 when the client accepts neither."""
    weights = _weights(headers.get("Accept-Encoding", ""))
    if weights is None:
        return "identity"
    any_weight = weights.get("*")
    identity = weights.get("identity", any_weight if any_weight is not None else 0.001)
    # "*" stands for gzip only where the client refuses the file as it is.
    gzip = weights.get("gzip", any_weight if any_weight is not None and identity <= 0 else 0.0)
    if any(name in headers for name in _CONDITIONS):
        gzip = 0.0
    if gzip <= 0 and identity <= 0:
        raise HttpError(406, "no acceptable encoding found: gzip and identity are offered")
    return "gzip" if gzip > 0 and gzip >= identity else "identity"


def accepts_identity(headers: HTTPHeaders) -> bool:
    """Whether the client accepts the file without compression."""
    weights = _weights(headers.get("Accept-Encoding", "")) or {}
    return weights.get("identity", weights.get("*", 1.0)) > 0


def _weights(text: str) -> dict[str, float] | None:
    if not text.strip():
        return None
    weights: dict[str, float] = {}
    for part in text.lower().split(","):
        coding, _, parameters = part.strip().partition(";")
        if not coding:
            continue
        weight = 1.0
        name, _, value = parameters.strip().partition("=")
        if name.strip() == "q":
            try:
                weight = min(1.0, max(0.0, float(value)))
            except ValueError:
                weight = 0.0
        weights[coding.strip()] = weight
    return weights


def entity_tag(mtime_ns: int, size: int) -> str:
    """The entity tag of a file without compression."""
    return f'"{mtime_ns:x}-{size:x}"'


def last_modified(mtime_ns: int) -> str:
    return formatdate(mtime_ns // 1_000_000_000, usegmt=True)


def is_unchanged(headers: HTTPHeaders, tag: str, mtime_ns: int) -> bool:
    """Whether the client has this version of the file already."""
    if (wanted := headers.get("If-None-Match")) is not None:
        tags = {part.strip().removeprefix("W/") for part in wanted.split(",")}
        return "*" in tags or tag in tags
    since = headers.get("If-Modified-Since")
    return since is not None and not _is_newer(mtime_ns, since)


def is_other_version(headers: HTTPHeaders, tag: str, mtime_ns: int) -> bool:
    """Whether the client wants only a version that this is not (412)."""
    if (wanted := headers.get("If-Match")) is not None:
        return "*" not in (tags := [part.strip() for part in wanted.split(",")]) and tag not in tags
    before = headers.get("If-Unmodified-Since")
    return before is not None and _is_date(before) and _is_newer(mtime_ns, before)


def wanted_ranges(headers: HTTPHeaders, tag: str, mtime_ns: int, size: int) -> list[Span] | None:
    """The ranges to send, or ``None`` for the whole file.

    Raises ``HttpError`` 416 when none of the ranges lies in the file.
    """
    text = headers.get("Range")
    if text is None or not _still_valid(headers.get("If-Range"), tag, mtime_ns):
        return None
    unit, _, ranges = text.partition("=")
    if unit.strip().lower() != "bytes":
        return None
    pieces = [piece for piece in ranges.split(",") if piece.strip()]
    if len(pieces) > _MAX_RANGES:
        return None
    spans: list[Span] = []
    for piece in pieces:
        match = _RANGE.match(piece)
        if match is None or match.groups() == ("", ""):
            return None
        span = _span(match.group(1), match.group(2), size)
        if span is not None:
            spans.append(span)
    if pieces and not spans:
        raise HttpError(416, "the range is not in the file")
    return None if sum(span.size for span in spans) > size and len(spans) > 1 else spans or None


def _span(first: str, last: str, size: int) -> Span | None:
    if first == "":
        length = min(int(last), size)
        return Span(size - length, size) if length else None
    start = int(first)
    end = size if last == "" else min(int(last) + 1, size)
    return Span(start, end) if start < end else None


def _still_valid(condition: str | None, tag: str, mtime_ns: int) -> bool:
    if condition is None:
        return True
    if condition.startswith('"'):
        return condition.strip() == tag
    if condition.startswith("W/"):
        return False
    return not _is_newer(mtime_ns, condition)


def _is_date(text: str) -> bool:
    try:
        parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _is_newer(mtime_ns: int, date: str) -> bool:
    try:
        return mtime_ns // 1_000_000_000 > int(parsedate_to_datetime(date).timestamp())
    except (ValueError, TypeError, OverflowError):
        return True


def disposition(name: str) -> str:
    """``inline`` with the file's name (RFC 6266)."""
    if _TOKEN.match(name):
        return f"inline; filename={name}"
    if name.isascii() and name.isprintable():
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'inline; filename="{escaped}"'
    return f"inline; filename*=utf-8''{quote(name, safe='', errors='surrogateescape')}"
