"""Decompresses what clients send with gzip, in bounded memory."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from sbx_jupyter.protocol.connect import MAX_MESSAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE: Final = 1024 * 1024
_QUICK: Final = 64 * 1024
"""Compressed bytes above which a thread decompresses a message."""


class GzipDecoder:
    """Decompresses a gzip body piece by piece, in constant memory."""

    def __init__(self) -> None:
        self._decompressor = _new_decompressor()
        self._has_input = False

    @classmethod
    def for_coding(cls, coding: str) -> GzipDecoder | None:
        """The decoder for a ``Content-Encoding``; raises ``InvalidArgumentError``."""
        name = coding.strip().lower()
        if name in ("", "identity"):
            return None
        if name != "gzip":
            raise InvalidArgumentError(f"unsupported Content-Encoding: {coding}")
        return cls()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield up to 1 MiB of content at a time; raises ``InvalidArgumentError``."""
        rest = chunk
        while rest:
            if self._decompressor.eof:
                self._decompressor = _new_decompressor()
            try:
                content = self._decompressor.decompress(rest, _PIECE)
            except zlib.error as error:
                raise InvalidArgumentError(f"the gzip body is corrupt: {error}") from None
            self._has_input = True
            rest = (
                self._decompressor.unused_data
                if self._decompressor.eof
                else self._decompressor.unconsumed_tail
            )
            if content:
                yield content

    def finish(self) -> None:
        """Check that the gzip data is complete; raises ``InvalidArgumentError``."""
        if not self._has_input or not self._decompressor.eof:
            raise InvalidArgumentError("the gzip body is corrupt: it ends too early")


def is_compressed(coding: str) -> bool:
    """Whether messages in this coding are compressed; raises ``UnimplementedError``."""
    name = coding.strip().lower()
    if name not in ("", "identity", "gzip"):
        raise UnimplementedError(f"unknown compression '{coding}': gzip and identity are supported")
    return name == "gzip"


async def decompress_message(raw: bytes) -> bytes:
    """One message that was compressed with gzip.

    Raises ``InvalidArgumentError`` for a broken one, ``ResourceExhaustedError`` above the limit.
    """
    if len(raw) > _QUICK:
        return await asyncio.to_thread(_decompress, raw)
    return _decompress(raw)


def _decompress(raw: bytes) -> bytes:
    decoder = GzipDecoder()
    message = bytearray()
    for piece in decoder.feed(raw):
        message += piece
        if len(message) > MAX_MESSAGE_SIZE:
            raise ResourceExhaustedError(
                f"message is larger than the limit of {MAX_MESSAGE_SIZE} bytes"
            )
    decoder.finish()
    return bytes(message)


def _new_decompressor():  # its type has no name at run time
    return zlib.decompressobj(16 + zlib.MAX_WBITS)
