"""Parses a multipart upload as it arrives (interface 4.5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from python_multipart.exceptions import FormParserError, MultipartParseError
from python_multipart.multipart import MultipartParser

from sbx_jupyter.errors import InternalError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from python_multipart.multipart import MultipartCallbacks

_FIELD: Final = b"file"
_MAX_HEADER: Final = 16 * 1024
_MAX_BOUNDARY: Final = 200
_PARAMETER: Final = re.compile(rb';\s*([A-Za-z0-9*_-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s"]*)', re.S)
_ESCAPED: Final = re.compile(rb"\\(.)", re.S)


class Event(NamedTuple):
    """The beginning, a piece or the end of one file."""

    kind: Literal["begin", "data", "end"]
    content: bytes = b""
    """The file name of ``begin``, the bytes of ``data``."""


class MultipartDecoder:
    """Turns chunks into events of the parts named ``file``; other parts are skipped.

    Raises ``InvalidArgumentError`` without a boundary, ``InternalError`` for a broken body.
    """

    def __init__(self, content_type: str) -> None:
        boundary = dict(parameters(content_type.encode("latin-1"))).get(b"boundary", b"")
        if not 0 < len(boundary) <= _MAX_BOUNDARY:
            raise InvalidArgumentError("the multipart body has no usable boundary")
        self._events: list[Event] = []
        self._name = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._is_file = False
        self._is_finished = False
        try:
            self._parser = MultipartParser(boundary, self._callbacks())
        except FormParserError as error:
            raise InvalidArgumentError(f"the boundary cannot be used: {error}") from None

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events of one chunk; raises ``InternalError``."""
        if self._is_finished:
            return iter(())  # the epilogue is ignored
        try:
            self._parser.write(chunk)
        except MultipartParseError as error:
            raise InternalError(f"the multipart body is broken: {error}") from None
        events, self._events = self._events, []
        return iter(events)

    def finish(self) -> None:
        """Check that the body is complete; raises ``InternalError``."""
        if not self._is_finished:
            raise InternalError("the multipart body is broken: it has no end")

    def _callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finished,
        }

    def _begin(self) -> None:
        self._disposition = b""
        self._is_file = False
        self._name.clear()
        self._value.clear()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]
        self._check_header()

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._check_header()

    def _check_header(self) -> None:
        if len(self._name) + len(self._value) > _MAX_HEADER:
            raise MultipartParseError("a header of a part is too long")

    def _header_end(self) -> None:
        if bytes(self._name).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        given = dict(parameters(self._disposition))
        self._is_file = given.get(b"name") == _FIELD
        if self._is_file:
            self._events.append(Event("begin", given.get(b"filename", b"")))

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file and end > start:
            self._events.append(Event("data", data[start:end]))

    def _end(self) -> None:
        if self._is_file:
            self._events.append(Event("end"))

    def _finished(self) -> None:
        self._is_finished = True


def parameters(header: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The parameters of a header value, quoted ones unescaped, the first of each name."""
    seen: set[bytes] = set()
    for match in _PARAMETER.finditer(header):
        name, value = match.group(1).lower(), match.group(2)
        if value.startswith(b'"'):
            value = _ESCAPED.sub(rb"\1", value[1:-1])
        if name not in seen:
            seen.add(name)
            yield name, value
