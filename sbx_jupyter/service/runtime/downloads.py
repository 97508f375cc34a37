"""Sends a file of a sandbox: whole, in ranges or compressed, in constant memory (interface 4.4)."""

from __future__ import annotations

import asyncio
import os
import secrets
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import DataLossError
from sbx_jupyter.service.answers import HttpError
from sbx_jupyter.service.runtime import media_types, negotiation
from sbx_jupyter.service.runtime.negotiation import Span

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sbx_jupyter.engine.live.open_files import OpenFile
    from sbx_jupyter.service.runtime.runtime_handler import RuntimeHandler

_CHUNK: Final = 1024 * 1024
_SAMPLE: Final = 64 * 1024
_SNIFF: Final = 512
_GZIP: Final = 16 + zlib.MAX_WBITS

_readers = ThreadPoolExecutor(max_workers=16, thread_name_prefix="sbx-download")


class Download:
    """One response to ``GET /files`` or ``HEAD /files``."""

    def __init__(self, handler: RuntimeHandler, file: OpenFile) -> None:
        self._handler = handler
        self._file = file
        self._tag = negotiation.entity_tag(file.mtime_ns, file.size)

    async def send(self) -> None:
        """Send the response.

        Raises ``HttpError`` before anything is sent, ``DataLossError`` when the file got shorter,
        and ``StreamClosedError`` when the client has disconnected.
        """
        handler, file = self._handler, self._file
        headers = handler.request.headers
        handler.set_header("Vary", "Accept-Encoding")
        handler.set_header("Content-Disposition", negotiation.disposition(file.name))
        if negotiation.is_other_version(headers, self._tag, file.mtime_ns):
            raise HttpError(412, "the file is not the version that the request is about")
        coding = negotiation.choose_coding(headers)
        is_empty = file.size == 0 and not file.streamed
        if coding == "gzip" and not (is_empty and negotiation.accepts_identity(headers)):
            await self._send_gzip()
        elif file.streamed:
            handler.set_header("Content-Type", "text/plain; charset=utf-8")
            await self._send_pieces(self._read_to_end())
        else:
            await self._send_identity()

    async def _send_identity(self) -> None:
        handler, file = self._handler, self._file
        headers = handler.request.headers
        handler.set_header("Accept-Ranges", "bytes")
        handler.set_header("ETag", self._tag)
        handler.set_header("Last-Modified", negotiation.last_modified(file.mtime_ns))
        if negotiation.is_unchanged(headers, self._tag, file.mtime_ns):
            handler.set_status(304)
            handler.clear_header("Content-Type")
            return
        try:
            spans = negotiation.wanted_ranges(headers, self._tag, file.mtime_ns, file.size)
        except HttpError:
            handler.set_header("Content-Range", f"bytes */{file.size}")
            raise
        kind = media_types.content_type(file.name, await self._read(0, _SNIFF))
        handler.set_header("Content-Type", kind)
        if spans is None:
            handler.set_header("Content-Length", file.size)
            await self._send_pieces(self._read_span(Span(0, file.size)))
        elif len(spans) == 1:
            span = spans[0]
            handler.set_status(206)
            handler.set_header("Content-Range", _content_range(span, file.size))
            handler.set_header("Content-Length", span.size)
            await self._send_pieces(self._read_span(span))
        else:
            await self._send_ranges(spans, kind)

    async def _send_ranges(self, spans: list[Span], kind: str) -> None:
        boundary = secrets.token_hex(16)
        heads = [
            f"\r\n--{boundary}\r\nContent-Type: {kind}\r\n"
            f"Content-Range: {_content_range(span, self._file.size)}\r\n\r\n".encode()
            for span in spans
        ]
        tail = f"\r\n--{boundary}--\r\n".encode()
        handler = self._handler
        handler.set_status(206)
        handler.set_header("Content-Type", f"multipart/byteranges; boundary={boundary}")
        total = sum(map(len, heads)) + sum(span.size for span in spans) + len(tail)
        handler.set_header("Content-Length", total)

        async def pieces() -> AsyncIterator[bytes]:
            for head, span in zip(heads, spans, strict=True):
                yield head
                async for chunk in self._read_span(span):
                    yield chunk
            yield tail

        await self._send_pieces(pieces())

    async def _send_gzip(self) -> None:
        handler = self._handler
        handler.set_header("Content-Encoding", "gzip")
        handler.set_header("Content-Type", media_types.type_by_name(self._file.name))
        await self._send_pieces(self._compress())

    async def _send_pieces(self, pieces: AsyncIterator[bytes]) -> None:
        """Send the body; each piece waits until the last one was sent."""
        handler = self._handler
        if handler.request.method == "HEAD":
            return
        await handler.flush()
        async for piece in pieces:
            handler.service.counters.sent_bytes += len(piece)
            await handler.http1.write(piece)

    # Reading.

    async def _read(self, offset: int, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_readers, os.pread, self._file.fd, size, offset)

    async def _read_span(self, span: Span) -> AsyncIterator[bytes]:
        position = span.start
        while position < span.end:
            chunk = await self._read(position, min(_CHUNK, span.end - position))
            if not chunk:
                raise DataLossError("the file got shorter while it was read")
            position += len(chunk)
            yield chunk

    async def _read_to_end(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while chunk := await loop.run_in_executor(_readers, os.read, self._file.fd, _SAMPLE):
            yield chunk

    async def _compress(self) -> AsyncIterator[bytes]:
        size = self._file.size
        source = self._read_to_end() if self._file.streamed else self._read_span(Span(0, size))
        loop = asyncio.get_running_loop()
        packer = None
        async for chunk in source:
            if packer is None:
                level = await loop.run_in_executor(_readers, _level_for, chunk)
                packer = zlib.compressobj(level, zlib.DEFLATED, _GZIP)
            packed = await loop.run_in_executor(_readers, packer.compress, chunk)
            if packed:
                yield packed
        yield (packer or zlib.compressobj(1, zlib.DEFLATED, _GZIP)).flush()


def _level_for(chunk: bytes) -> int:
    """The fastest level, or 0 if that saves less than 10 % of a sample."""
    sample = chunk[:_SAMPLE]
    return 1 if len(zlib.compress(sample, 1)) < 0.9 * len(sample) else 0


def _content_range(span: Span, size: int) -> str:
    return f"bytes {span.start}-{span.end - 1}/{size}"
