"""HTTP content negotiation of files: coding, ranges, conditions and types (interface 4.4)."""

from __future__ import annotations

import mimetypes
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
_BINARY: Final = "application/octet-stream"
_types: Final = mimetypes.MimeTypes()


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
    gzip = weights.get("gzip", any_weight if any_weight is not None else 0.0)
    identity = weights.get("identity", any_weight if any_weight is not None else 0.001)
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
    pieces = ranges.split(",")
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
    if not spans:
        raise HttpError(416, "the range is not in the file")
    return None if sum(span.size for span in spans) > size and len(spans) > 1 else spans


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


def _is_newer(mtime_ns: int, date: str) -> bool:
    try:
        return mtime_ns // 1_000_000_000 > int(parsedate_to_datetime(date).timestamp())
    except (ValueError, TypeError, OverflowError):
        return True


def content_type(name: str, beginning: bytes) -> str:
    """The type of a file by its extension, else by its first bytes."""
    guessed, coding = _types.guess_type(name.rpartition("/")[2])
    if coding is not None:
        return {"gzip": "application/gzip"}.get(coding, _BINARY)
    if guessed is None:
        guessed = _sniff(beginning)
    return f"{guessed}; charset=utf-8" if guessed.startswith("text/") else guessed


def type_by_name(name: str) -> str:
    """The type of a file by its extension alone."""
    return content_type(name, b"\0")


def _sniff(beginning: bytes) -> str:
    for magic, kind in _MAGIC:
        if beginning.startswith(magic):
            return kind
    if b"\0" in beginning:
        return _BINARY
    try:
        beginning[: len(beginning) - 3].decode()
    except UnicodeDecodeError:
        return _BINARY
    return "text/plain"


_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"PK\x03\x04", "application/zip"),
)


def disposition(name: str) -> str:
    """``inline`` with the file's name (RFC 6266)."""
    if _TOKEN.match(name):
        return f"inline; filename={name}"
    if name.isascii() and name.isprintable():
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'inline; filename="{escaped}"'
    return f"inline; filename*=utf-8''{quote(name, safe='', errors='surrogateescape')}"
