"""Parses a multipart upload as it arrives (interface 4.5).

Bodies are taken as the reference takes them: text before the first boundary is skipped, and lines
may end with a line feed alone. The libraries for this refuse both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import unquote_to_bytes

from sbx_jupyter.errors import InternalError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MULTIPART_TYPES: Final = ("multipart/form-data", "multipart/mixed")

_FIELD: Final = b"file"
_MAX_HEADER: Final = 16 * 1024
_MAX_BOUNDARY: Final = 200
_BLANKS: Final = b" \t\r\n"
_FOLD: Final = re.compile(rb"\r?\n[ \t]+")
_PARAMETER: Final = re.compile(rb';\s*([A-Za-z0-9*_-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s"]*)', re.S)
_ESCAPED: Final = re.compile(rb'\\([()<>@,;:\\"/\[\]?=])')
"""Before another character, a backslash is meant: clients do not escape those of file names."""
_UTF8_VALUE: Final = re.compile(rb"(?:utf-8|us-ascii)'[^']*'(.*)\Z", re.IGNORECASE | re.DOTALL)


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
        self._mark = b"--" + boundary
        self._line_end = b"\r\n"
        self._buffer = bytearray()
        self._events: list[Event] = []
        self._headers = bytearray()
        self._is_file = False
        self._has_content = False
        self._step: Callable[[], bool] | None = self._skip_preamble

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events of one chunk; raises ``InternalError``."""
        if self._step is None:
            return iter(())  # the epilogue is ignored
        self._buffer += chunk
        while self._step is not None and self._step():
            pass
        events, self._events = self._events, []
        return iter(events)

    def finish(self) -> None:
        """Check that the body is complete; raises ``InternalError``."""
        if self._step is not None:
            raise _broken("it has no end")

    # Each step takes what it can from the buffer, and says whether another may take more.

    def _skip_preamble(self) -> bool:
        line = self._take_line()
        if line is None and self._buffer.startswith(self._mark + b"--"):
            line = bytes(self._buffer)
        if line is None:
            if len(self._buffer) > _MAX_HEADER:
                raise _broken("it does not begin with its boundary")
            return False
        if line.startswith(self._mark):
            rest = line[len(self._mark) :]
            if rest.startswith(b"--"):
                self._step = None
            elif not rest.strip(_BLANKS):
                if not line.endswith(b"\r\n"):
                    self._line_end = b"\n"
                self._step = self._read_headers
        return True

    def _read_headers(self) -> bool:
        while (line := self._take_line()) is not None:
            if not line.strip(b"\r\n"):
                self._begin_content()
                return True
            self._headers += line
        if len(self._headers) + len(self._buffer) > _MAX_HEADER:
            raise _broken("the headers of a part are too long")
        return False

    def _read_content(self) -> bool:
        """Pass content on, up to the next boundary, which begins with the end of a line."""
        mark = self._line_end + self._mark
        searched = 0
        while (found := self._buffer.find(mark, searched)) >= 0:
            after = found + len(mark)
            line_end = self._buffer.find(b"\n", after)
            rest = bytes(self._buffer[after : None if line_end < 0 else line_end])
            if rest.startswith(b"--"):
                self._end_content(found)
                self._step = None
                return False
            if not rest.strip(_BLANKS) and line_end >= 0:
                self._end_content(found)
                del self._buffer[: line_end + 1 - found]
                self._step = self._read_headers
                return True
            if line_end < 0 and len(rest) <= _MAX_HEADER and not rest.strip(_BLANKS + b"-"):
                self._pass_on(found)
                return False  # what comes next decides
            searched = found + 1  # it only looks like a boundary
        self._pass_on(max(searched, len(self._buffer) - len(mark) + 1))
        return False

    def _take_line(self) -> bytes | None:
        """The next line with its end; ``None`` when it is not complete."""
        end = self._buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line

    def _begin_content(self) -> None:
        disposition = b""
        for line in _FOLD.sub(b" ", bytes(self._headers)).splitlines():
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-disposition":
                disposition = value.strip()
        self._headers.clear()
        given = dict(parameters(disposition))
        self._is_file = given.get(b"name") == _FIELD
        if self._is_file:
            self._events.append(Event("begin", _file_name(given)))
        # A boundary that follows at once begins with the end of the last header's line.
        self._buffer[:0] = self._line_end
        self._has_content = False
        self._step = self._read_content

    def _pass_on(self, size: int) -> None:
        """Take ``size`` bytes of content from the buffer."""
        start = 0 if self._has_content else len(self._line_end)
        if size <= start:
            return
        self._has_content = True
        if self._is_file:
            self._events.append(Event("data", bytes(self._buffer[start:size])))
        del self._buffer[:size]

    def _end_content(self, size: int) -> None:
        before = len(self._buffer)
        self._pass_on(size)
        del self._buffer[: size - (before - len(self._buffer))]
        if self._is_file:
            self._events.append(Event("end"))


def _file_name(given: dict[bytes, bytes]) -> bytes:
    """The name in ``filename*``, else in ``filename``; raises ``InternalError``."""
    extended = given.get(b"filename*")
    if extended is None:
        return given.get(b"filename", b"")
    match = _UTF8_VALUE.match(extended)
    if match is None:
        raise _broken("the file name has an unknown character set")
    return unquote_to_bytes(match[1])


def _broken(how: str) -> InternalError:
    return InternalError(f"the multipart body is broken: {how}")


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
