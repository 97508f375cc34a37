"""Writes the files of an upload as it arrives (interface 4.5)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from tornado.iostream import StreamClosedError

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.service.runtime.compressed_body import CompressedBody
from sbx_jupyter.service.runtime.multipart import MULTIPART_TYPES, MultipartDecoder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from pathlib import Path

    from tornado.httputil import HTTPHeaders
    from tornado.iostream import IOStream

    from sbx_jupyter.engine.live.files import Files
    from sbx_jupyter.engine.live.open_files import WritableFile
    from sbx_jupyter.protocol.runtime import WrittenFile

_METADATA_PREFIX: Final = "x-metadata-"
_STORED_PREFIX: Final = "user.e2b."
_MAX_METADATA_KEY: Final = 246
_MAX_METADATA: Final = 4096
_PIECE: Final = 1024 * 1024
_SMALL_PIECE: Final = 64 * 1024
_MOST_LARGE: Final = 16
_large_buffers = 0
"""Number of uploads that now have buffers of more than ``_SMALL_PIECE`` bytes."""


class Upload:
    """One ``POST /files``: decodes the body and writes each file.

    A file is opened when a megabyte of its content has arrived or all of it, so that an error
    before changes nothing. Further content goes into a draft where the file has content already. A
    compressed body is first checked to its end.
    """

    def __init__(
        self,
        files: Files,
        headers: HTTPHeaders,
        path: str | None,
        user: str | None,
        spool_dir: Path,
    ) -> None:
        """Raises ``InvalidArgumentError`` for a body that is not supported."""
        self._files = files
        self._user = user
        self._path = path
        self._metadata = metadata_of(headers)
        coding = headers.get("Content-Encoding", "").strip().lower()
        if coding not in ("", "identity", "gzip"):
            raise InvalidArgumentError(f"unsupported Content-Encoding: {coding}")
        self._compressed = CompressedBody(spool_dir) if coding == "gzip" else None
        self._decoder: MultipartDecoder | None = None
        self._target: str | None = None
        self._held: list[bytes] = []
        self._held_size = 0
        self._current: WritableFile | None = None
        self._done: list[WrittenFile] = []
        self._targets: set[str] = set()
        content_type = headers.get("Content-Type", "")
        kind = content_type.partition(";")[0].strip().lower()
        if kind in MULTIPART_TYPES:
            self._decoder = MultipartDecoder(content_type)
        elif kind != "application/octet-stream":
            raise InvalidArgumentError(f"unsupported content type: {content_type or '(none)'}")
        elif path is None or path == "":
            raise InvalidArgumentError("path query parameter is required for raw body upload")
        else:
            self._target = path

    def is_direct(self, size: int) -> bool:
        """Whether a body of ``size`` bytes is for ``receive_from``: long, and the file's content.

        A short one is written when all of it has arrived.
        """
        return self._decoder is None and self._compressed is None and size > _PIECE

    async def open(self) -> None:
        """Open the file of such a body."""
        await self._open_held()

    async def receive_from(self, stream: IOStream, size: int) -> AsyncGenerator[int]:
        """Read the whole body from the socket; yields the number of bytes of each read.

        One buffer is filled while the other one is written, so that the bytes are copied only once,
        by the kernel. Raises ``StreamClosedError`` and the errors of writing.
        """
        assert self._current is not None
        file = self._current
        with _room_for(size) as piece:
            filling, writing = memoryview(bytearray(piece)), memoryview(bytearray(piece))
            filled = 0
            while size:
                room = filling[filled : min(piece, filled + size)]
                try:
                    # Tornado is annotated for a bytearray, and takes any writable buffer.
                    count = await stream.read_into(room, partial=True)  # pyright: ignore[reportArgumentType]
                except StreamClosedError:
                    await file.write_borrowed(filling[:filled])  # keep the received bytes
                    raise
                filled += count
                size -= count
                yield count  # before a write may fail: the caller has to know what is left
                if filled == piece or not size or file.is_idle:
                    await file.write_borrowed(filling[:filled])
                    filling, writing, filled = writing, filling, 0

    async def receive(self, chunk: bytes) -> None:
        """Take a chunk of the body; raises the errors of writing."""
        if self._compressed is not None:
            await self._compressed.receive(chunk)
        else:
            await self._receive_content(chunk)

    async def finish(self) -> list[WrittenFile]:
        """End the upload when the whole body has arrived; returns the written files in order."""
        if self._compressed is not None:
            self._compressed.finish()
            async for content in self._compressed.read():
                await self._receive_content(content)
        if self._decoder is not None:
            self._decoder.finish()
        else:
            await self._end()
        return self._done

    async def aclose(self) -> None:
        """Close the file that is open still, whose content is not whole."""
        if self._compressed is not None:
            await self._compressed.aclose()
        file, self._current = self._current, None
        if file is not None:
            await file.abort()

    async def _receive_content(self, content: bytes) -> None:
        if self._decoder is None:
            await self._write(content)
            return
        for event in self._decoder.feed(content):
            if event.kind == "begin":
                await self._begin(self._place(event.content))
            elif event.kind == "data":
                await self._write(event.content)
            else:
                await self._end()

    def _place(self, file_name: bytes) -> str:
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
        self._target = target

    async def _write(self, content: bytes) -> None:
        if self._current is not None:
            await self._current.write(content)
            return
        self._held.append(content)
        self._held_size += len(content)
        if self._held_size >= _PIECE:
            await self._open_held()

    async def _open_held(self) -> WritableFile:
        """Open the file of the content that is held, and write that."""
        assert self._target is not None
        file = self._current = await self._open(self._target)
        self._target = None
        held, self._held, self._held_size = self._held, [], 0
        for content in held:
            await file.write(content)
        return file

    async def _open(self, target: str) -> WritableFile:
        file = await self._files.open_write(target, self._user, self._metadata)
        self._targets.add(file.path)
        return file

    async def _end(self) -> None:
        file = self._current or await self._open_held()
        self._current = None
        await file.close()
        self._done.append(file.written)


@contextlib.contextmanager
def _room_for(size: int) -> Generator[int]:
    """Yields the size that each of the two buffers of an upload of ``size`` bytes may have.

    Many uploads at once, which may all have stopped, get small ones.
    """
    global _large_buffers
    if size <= _SMALL_PIECE or _large_buffers >= _MOST_LARGE:
        yield min(size, _SMALL_PIECE)
        return
    _large_buffers += 1
    try:
        yield min(size, _PIECE)
    finally:
        _large_buffers -= 1


def metadata_of(headers: HTTPHeaders) -> dict[str, str]:
    """The file metadata in ``X-Metadata-*`` headers; raises ``InvalidArgumentError``."""
    metadata: dict[str, str] = {}
    for name, value in headers.get_all():
        lowered = name.lower()
        if lowered.startswith(_METADATA_PREFIX):
            metadata.setdefault(lowered[len(_METADATA_PREFIX) :], value)
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
