"""Writes the files of an upload as their bytes arrive (interface 4.5)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from tornado.iostream import StreamClosedError

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.service.runtime.multipart import MultipartDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tornado.httputil import HTTPHeaders
    from tornado.iostream import IOStream

    from sbx_jupyter.engine.live.files import Files, WritableFile
    from sbx_jupyter.protocol.runtime import WrittenFile

_METADATA_PREFIX: Final = "x-metadata-"
_STORED_PREFIX: Final = "user.e2b."
_MAX_METADATA_KEY: Final = 246
_MAX_METADATA: Final = 4096
_PIECE: Final = 1024 * 1024


class Upload:
    """One ``POST /files``: decodes the body and writes each file."""

    def __init__(
        self, files: Files, headers: HTTPHeaders, path: str | None, user: str | None
    ) -> None:
        """Raises ``InvalidArgumentError`` for a body that is not supported."""
        self._files = files
        self._user = user
        self._path = path
        self._metadata = metadata_of(headers)
        self._inflate = Inflater.for_coding(headers.get("Content-Encoding", ""))
        self._decoder: MultipartDecoder | None = None
        self._current: WritableFile | None = None
        self._done: list[WrittenFile] = []
        self._targets: set[str] = set()
        content_type = headers.get("Content-Type", "")
        kind = content_type.partition(";")[0].strip().lower()
        if kind == "multipart/form-data":
            self._decoder = MultipartDecoder(content_type)
        elif kind != "application/octet-stream":
            raise InvalidArgumentError(f"unsupported content type: {content_type or '(none)'}")
        elif path is None or path == "":
            raise InvalidArgumentError("path query parameter is required for raw body upload")

    async def open(self) -> None:
        """Get ready for the first bytes; a raw body has its file at once."""
        if self._decoder is None:
            await self._begin(self._path or "")

    @property
    def is_plain(self) -> bool:
        """Whether the body is the file, byte by byte."""
        return self._decoder is None and self._inflate is None

    async def receive_from(self, stream: IOStream, size: int) -> AsyncIterator[int]:
        """Take the whole plain body from the socket; yields how many bytes came each time.

        One buffer is filled while the other one is written, so the bytes are copied once, by the
        kernel. Raises what writing raises, and ``StreamClosedError``.
        """
        assert self._current is not None
        file = self._current
        filling, writing = memoryview(bytearray(_PIECE)), memoryview(bytearray(_PIECE))
        filled = 0
        while size:
            room = filling[filled : min(_PIECE, filled + size)]
            try:
                # Tornado is annotated for a bytearray, and takes any writable buffer.
                count = await stream.read_into(room, partial=True)  # pyright: ignore[reportArgumentType]
            except StreamClosedError:
                await file.write_borrowed(filling[:filled])  # what came, stays
                raise
            filled += count
            size -= count
            if filled == _PIECE or not size or file.is_idle:
                await file.write_borrowed(filling[:filled])
                filling, writing, filled = writing, filling, 0
            yield count

    async def receive(self, chunk: bytes) -> None:
        """Take bytes of the body; raises what writing raises."""
        for plain in self._inflate.feed(chunk) if self._inflate else (chunk,):
            if self._decoder is None:
                assert self._current is not None
                await self._current.write(plain)
            else:
                await self._receive_parts(self._decoder, plain)

    async def finish(self) -> list[WrittenFile]:
        """The whole body has arrived: what was written, in order."""
        if self._inflate is not None:
            self._inflate.finish()
        if self._decoder is not None:
            self._decoder.finish()
        else:
            await self._end()
        return self._done

    async def aclose(self) -> None:
        """Close what is still open; what was written stays."""
        file, self._current = self._current, None
        if file is not None:
            await file.close()

    async def _receive_parts(self, decoder: MultipartDecoder, chunk: bytes) -> None:
        for event in decoder.feed(chunk):
            if event.kind == "begin":
                await self._begin(self._target(event.content))
            elif event.kind == "data":
                assert self._current is not None
                await self._current.write(event.content)
            else:
                await self._end()

    def _target(self, file_name: bytes) -> str:
        if self._path is not None and self._path != "":
            return self._path
        try:
            name = file_name.decode()
        except UnicodeDecodeError:
            raise InvalidArgumentError("the file name is not UTF-8") from None
        if not name:
            raise InvalidArgumentError("a file has neither a path nor a file name")
        return name

    async def _begin(self, target: str) -> None:
        if self._targets and await self._files.resolve(target, self._user) in self._targets:
            raise InvalidArgumentError(f"cannot upload several files to the same path '{target}'")
        self._current = await self._files.open_write(target, self._user, self._metadata)
        self._targets.add(self._current.path)

    async def _end(self) -> None:
        file, self._current = self._current, None
        if file is not None:
            await file.close()
            self._done.append(file.written)


def metadata_of(headers: HTTPHeaders) -> dict[str, str]:
    """The file metadata in ``X-Metadata-*`` headers; raises ``InvalidArgumentError``."""
    metadata: dict[str, str] = {}
    for name, value in headers.get_all():
        lowered = name.lower()
        if lowered.startswith(_METADATA_PREFIX):
            metadata[lowered[len(_METADATA_PREFIX) :]] = value
    size = 0
    for key, value in metadata.items():
        if not 1 <= len(key) <= _MAX_METADATA_KEY or not _is_printable(key):
            raise InvalidArgumentError(
                f"invalid metadata: a key must have 1 to {_MAX_METADATA_KEY} printable characters"
            )
        if not _is_printable(value):
            raise InvalidArgumentError(
                f"invalid metadata: the value of '{key}' must be printable ASCII"
            )
        size += len(_STORED_PREFIX) + len(key) + len(value)
    if size > _MAX_METADATA:
        raise InvalidArgumentError(f"invalid metadata: more than {_MAX_METADATA} bytes in all")
    return metadata


def _is_printable(text: str) -> bool:
    return text.isascii() and (text == "" or text.isprintable())


class Inflater:
    """Unpacks a gzip body piece by piece, in bounded memory whatever it expands to."""

    def __init__(self) -> None:
        self._packed = _new_decompressor()
        self._is_fresh = True

    @classmethod
    def for_coding(cls, coding: str) -> Inflater | None:
        """What a ``Content-Encoding`` needs; raises ``InvalidArgumentError``."""
        name = coding.strip().lower()
        if name in ("", "identity"):
            return None
        if name != "gzip":
            raise InvalidArgumentError(f"unsupported Content-Encoding: {coding}")
        return cls()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The plain bytes, a megabyte at a time; raises ``InvalidArgumentError``."""
        rest = chunk
        while rest:
            if self._packed.eof:
                self._packed = _new_decompressor()
            try:
                plain = self._packed.decompress(rest, _PIECE)
            except zlib.error as error:
                raise InvalidArgumentError(f"the gzip body is corrupt: {error}") from None
            self._is_fresh = False
            rest = self._packed.unused_data if self._packed.eof else self._packed.unconsumed_tail
            if plain:
                yield plain

    def finish(self) -> None:
        """Say that the body ended; raises ``InvalidArgumentError`` before the end of the gzip."""
        if self._is_fresh or not self._packed.eof:
            raise InvalidArgumentError("the gzip body is corrupt: it ends too early")


def _new_decompressor():  # its type has no name at run time
    return zlib.decompressobj(16 + zlib.MAX_WBITS)
