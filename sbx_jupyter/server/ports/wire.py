"""HTTP/1.1 with a program of a sandbox, over a connection to its port.

Everything that the program sends is hostile. Anything but HTTP ends the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.server.ports.tunnel import BrokenAnswerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sbx_jupyter.server.ports.tunnel import Tunnel

Headers = list[tuple[str, str]]

CHUNK: Final = 256 * 1024
MAX_HEAD: Final = 64 * 1024
_SOON: Final = 0.005
_MAX_INTERIM: Final = 8
_MAX_SIZE_LINE: Final = 1024
_BODYLESS: Final = (204, 304)
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?\r?\n")
_FIELD: Final = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)\r?\n"
)
_END: Final = re.compile(rb"\r?\n")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")


@dataclass(slots=True)
class Head:
    """The start of an answer."""

    status: int
    headers: Headers
    may_stay_open: bool
    """Whether the program says that the connection can be used again."""

    def values(self, name: str) -> list[str]:
        """All values of a header; ``name`` in lower case."""
        return [value for known, value in self.headers if known.lower() == name]


class Answer:
    """The answer of a program to one request; ``receive`` its body, then ``close``."""

    def __init__(self, tunnel: Tunnel, head: Head, method: str, *, request_is_whole: bool) -> None:
        """Raises ``BrokenAnswerError`` if the head does not say where the body ends."""
        self._tunnel = tunnel
        self.status = head.status
        self.headers = head.headers
        self._is_chunked = False
        self._left: int | None = None
        """Bytes of the body, or of its chunk, that have not been received; ``None`` up to the end
        of the connection."""
        self._is_in_chunk = False
        self._may_stay_open = head.may_stay_open and request_is_whole and method != "HEAD"
        if method == "HEAD" or head.status in _BODYLESS:
            self._left = 0
        elif encodings := head.values("transfer-encoding"):
            if [each.lower() for each in encodings] != ["chunked"]:
                raise BrokenAnswerError("the program answers in an unknown transfer encoding")
            self._is_chunked, self._left = True, 0
            # Both would let programs behind each other disagree about the end.
            self.headers = [pair for pair in head.headers if pair[0].lower() != "content-length"]
        else:
            self._left = _stated_size(head.values("content-length"))
        self._has_ended = self._left == 0 and not self._is_chunked

    async def receive(self) -> bytes:
        """The next piece of the body, empty at its end; can be cancelled and called again.

        Raises ``BrokenAnswerError`` when the program breaks off.
        """
        if self._has_ended:
            return b""
        try:
            if self._is_chunked and not self._left and not await self._begin_chunk():
                return b""
            most = CHUNK if self._left is None else min(CHUNK, self._left)
            piece = await self._tunnel.reader.read(most)
        except OSError as error:
            raise BrokenAnswerError(f"the program broke off: {error}") from error
        if self._left is None:
            self._has_ended, self._may_stay_open = not piece, False
            return piece
        if not piece:
            raise BrokenAnswerError("the program broke off")
        self._left -= len(piece)
        self._has_ended = not self._left and not self._is_chunked
        return piece

    async def receive_soon(self) -> bytes | None:
        """Like ``receive``; ``None`` if nothing comes within ``_SOON`` seconds."""
        try:
            async with asyncio.timeout(_SOON):
                return await self.receive()
        except TimeoutError:
            return None

    def close(self) -> Tunnel | None:
        """End with the answer; return the connection if it can be used again."""
        # Bytes after the answer would be taken for the answer to the next request.
        if self._has_ended and self._may_stay_open and self._tunnel.reader.is_read():
            return self._tunnel
        self._tunnel.close()
        return None

    async def _begin_chunk(self) -> bool:
        """Read up to the bytes of the next chunk; false after the last one."""
        if self._is_in_chunk:
            await self._read_line(_END)
            self._is_in_chunk = False
        size = int((await self._read_line(_SIZE))[1], 16)
        if size:
            self._left, self._is_in_chunk = size, True
            return True
        # Trailers say nothing that a browser would be told.
        for _ in range(_MAX_INTERIM * 8):
            line = await _line(self._tunnel)
            if line in (b"\r\n", b"\n"):
                self._has_ended = True
                return False
        raise BrokenAnswerError("the answer of the program ends in too many lines")

    async def _read_line(self, expected: re.Pattern[bytes]) -> re.Match[bytes]:
        line = await _line(self._tunnel)
        found = expected.fullmatch(line) if len(line) <= _MAX_SIZE_LINE else None
        if found is None:
            raise BrokenAnswerError("the answer of the program has a bad chunk")
        return found


async def request(
    tunnel: Tunnel,
    method: str,
    target: str,
    headers: Headers,
    body: AsyncIterator[bytes] | None = None,
) -> Answer:
    """Send a request and read the head of the answer.

    Without ``Content-Length`` in ``headers``, ``body`` is sent in chunks. Raises
    ``BrokenAnswerError`` when the program does not answer in HTTP.
    """
    is_chunked = body is not None and all(name.lower() != "content-length" for name, _ in headers)
    framing = [("Transfer-Encoding", "chunked")] if is_chunked else []
    if body is None and method in ("POST", "PUT", "PATCH"):
        headers = [pair for pair in headers if pair[0].lower() != "content-length"]
        framing = [("Content-Length", "0")]
    tunnel.writer.write(_encode_head(method, target, [*headers, *framing]))
    if body is None:
        return Answer(tunnel, await read_head(tunnel), method, request_is_whole=True)
    head, is_whole = await _upload(tunnel, body, is_chunked=is_chunked)
    return Answer(tunnel, head, method, request_is_whole=is_whole)


async def read_head(tunnel: Tunnel, *, switches: bool = False) -> Head:
    """Read the start of an answer, after interim ones; 101 only if the request ``switches``.

    Raises ``BrokenAnswerError``.
    """
    try:
        for _ in range(_MAX_INTERIM):
            head = await _read_one_head(tunnel)
            if head.status >= 200 or (head.status == 101 and switches):
                return head
            if head.status == 101:
                break
    except OSError as error:
        raise BrokenAnswerError(f"the program does not answer: {error}") from error
    raise BrokenAnswerError("the program does not answer the request")


async def _read_one_head(tunnel: Tunnel) -> Head:
    first = _STATUS.fullmatch(await _line(tunnel))
    if first is None:
        raise BrokenAnswerError("the program does not answer in HTTP")
    headers: Headers = []
    size = 0
    while (line := await _line(tunnel)) not in (b"\r\n", b"\n"):
        size += len(line)
        field = _FIELD.fullmatch(line)
        if field is None or size > MAX_HEAD:
            raise BrokenAnswerError("the headers of the program's answer are not HTTP or too large")
        headers.append((field[1].decode("latin-1"), field[2].decode("latin-1").strip()))
    head = Head(int(first[2]), headers, first[1] == b"1")
    if any("close" in value.lower() for value in head.values("connection")):
        head.may_stay_open = False
    return head


async def _line(tunnel: Tunnel) -> bytes:
    try:
        line = await tunnel.reader.readline()
    except ValueError:
        raise BrokenAnswerError("the program's answer has a line that is too long") from None
    if not line.endswith(b"\n"):
        raise BrokenAnswerError("the program closed the connection")
    return line


def _encode_head(method: str, target: str, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    if head.count(b"\n") != len(lines) + 1:
        raise BrokenAnswerError("the request has a header that cannot be sent")
    return head


def _stated_size(values: list[str]) -> int | None:
    if not values:
        return None
    sizes = {part.strip() for value in values for part in value.split(",")}
    text = sizes.pop()
    if sizes or not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BrokenAnswerError("the program's answer has a bad Content-Length")
    return int(text)


async def _upload(
    tunnel: Tunnel, body: AsyncIterator[bytes], *, is_chunked: bool
) -> tuple[Head, bool]:
    """Send the body, and return the head of the answer and whether all was sent.

    A program that refuses the body need not read it.
    """
    sending = asyncio.create_task(_send_body(tunnel, body, is_chunked=is_chunked))
    reading = asyncio.create_task(read_head(tunnel))
    try:
        await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done() or reading.result().status < 300:
            # A program that closes has often answered before.
            with contextlib.suppress(OSError):
                await sending
        return await reading, sending.done() and sending.exception() is None
    finally:
        for task in (sending, reading):
            task.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)


async def _send_body(tunnel: Tunnel, body: AsyncIterator[bytes], *, is_chunked: bool) -> None:
    writer = tunnel.writer
    async for piece in body:
        if is_chunked:
            writer.write(b"%x\r\n" % len(piece))
        writer.write(piece)
        if is_chunked:
            writer.write(b"\r\n")
        await writer.drain()
    if is_chunked:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
