"""Writes the files of an upload as it arrives (interface 4.5)."""

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
        self._gzip = GzipDecoder.for_coding(headers.get("Content-Encoding", ""))
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
        """Open the file of a body that is not multipart."""
        if self._decoder is None:
            await self._begin(self._path or "")

    @property
    def is_file_content(self) -> bool:
        """Whether the body is the content of the file, neither multipart nor compressed."""
        return self._decoder is None and self._gzip is None

    async def receive_from(self, stream: IOStream, size: int) -> AsyncIterator[int]:
        """Read the whole body from the socket; yields the number of bytes of each read.

        One buffer is filled while the other one is written, so that the bytes are copied only once,
        by the kernel. Raises ``StreamClosedError`` and the errors of writing.
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
                await file.write_borrowed(filling[:filled])  # keep the received bytes
                raise
            filled += count
            size -= count
            if filled == _PIECE or not size or file.is_idle:
                await file.write_borrowed(filling[:filled])
                filling, writing, filled = writing, filling, 0
            yield count

    async def receive(self, chunk: bytes) -> None:
        """Write a chunk of the body; raises the errors of writing."""
        for content in self._gzip.feed(chunk) if self._gzip else (chunk,):
            if self._decoder is None:
                assert self._current is not None
                await self._current.write(content)
            else:
                await self._receive_parts(self._decoder, content)

    async def finish(self) -> list[WrittenFile]:
        """End the upload when the whole body has arrived; returns the written files in order."""
        if self._gzip is not None:
            self._gzip.finish()
        if self._decoder is not None:
            self._decoder.finish()
        else:
            await self._end()
        return self._done

    async def aclose(self) -> None:
        """Close the open file; the written content stays."""
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


def _new_decompressor():  # its type has no name at run time
    return zlib.decompressobj(16 + zlib.MAX_WBITS)
