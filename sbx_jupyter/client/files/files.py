"""Reads, writes, lists, moves and watches the files of a sandbox (interface 3.4, 4.4)."""

from __future__ import annotations

import asyncio
import math
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, cast, overload
from urllib.parse import urlencode, urlsplit

import msgspec

from sbx_jupyter.client.api.runtime import STREAM_SILENCE
from sbx_jupyter.client.api.transport import raise_for_status, translated_errors
from sbx_jupyter.client.cleanup import shielded
from sbx_jupyter.client.connection.config import is_loopback
from sbx_jupyter.client.files.watch import Watch
from sbx_jupyter.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from sbx_jupyter.protocol.access import sign
from sbx_jupyter.protocol.runtime import (
    Empty,
    EntryInfo,
    EntryResponse,
    ListDirRequest,
    ListDirResponse,
    MoveRequest,
    PathRequest,
    WatchDirRequest,
    WatchDirResponse,
    WrittenFile,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping

    import httpx

    from sbx_jupyter.client.api.runtime import RuntimeClient

    FileContent = (
        str | bytes | bytearray | memoryview | IO[bytes] | Iterable[bytes] | AsyncIterable[bytes]
    )

CHUNK_SIZE: Final = 256 * 1024


class Files:
    """The files of one sandbox. Relative paths start at the home of the user.

    Every call raises ``NotFoundError`` for a missing path and ``InvalidArgumentError`` for one that
    is a directory where a file is wanted, or the other way round.
    """

    def __init__(self, runtime: RuntimeClient) -> None:
        self._runtime = runtime

    @overload
    async def read(
        self, path: str, format: Literal["text"] = "text", *, user: str | None = None
    ) -> str: ...

    @overload
    async def read(
        self, path: str, format: Literal["bytes"], *, user: str | None = None
    ) -> bytes: ...

    @overload
    async def read(
        self, path: str, format: Literal["stream"], *, user: str | None = None
    ) -> FileStream: ...

    async def read(
        self,
        path: str,
        format: Literal["text", "bytes", "stream"] = "text",
        *,
        user: str | None = None,
    ) -> str | bytes | FileStream:
        """Read a file: as UTF-8 text, as bytes, or as a stream to be read piece by piece."""
        if format not in ("text", "bytes", "stream"):
            raise InvalidArgumentError(f"format {format!r} is none of text, bytes and stream")
        stream = await self._open(path, user)
        if format == "stream":
            return stream
        async with stream:
            content = b"".join([chunk async for chunk in stream])
        return content.decode("utf-8", "replace") if format == "text" else content

    async def download(self, path: str, target: str | Path, *, user: str | None = None) -> int:
        """Copy a file of the sandbox to this machine piece by piece; return its size in bytes."""
        async with await self._open(path, user) as stream:
            return await _save(stream, target)

    async def write(
        self,
        path: str,
        content: FileContent,
        *,
        user: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> WrittenFile:
        """Write a file from text, bytes or anything that yields bytes; make its parent directories.

        Raises ``NoSpaceError`` when the disk of the sandbox is full.
        """
        params = {"path": path} | ({} if user is None else {"username": user})
        headers = self._runtime.headers() | {"Content-Type": "application/octet-stream"}
        for key, value in (metadata or {}).items():
            headers[f"X-Metadata-{key}"] = value
        response = await self._runtime.transport.request(
            "POST",
            self._runtime.url("/files"),
            headers=headers,
            params=params,
            content=_body(content),
            timeout=STREAM_SILENCE,
        )
        await raise_for_status(response)
        try:
            return msgspec.json.decode(response.content, type=list[WrittenFile])[0]
        except (msgspec.DecodeError, IndexError) as error:
            raise UnavailableError("the upload was not confirmed") from error

    async def write_files(
        self, files: Mapping[str, FileContent], *, user: str | None = None
    ) -> list[WrittenFile]:
        """Write several files, one after the other."""
        return [await self.write(path, content, user=user) for path, content in files.items()]

    async def upload(
        self, source: str | Path, path: str, *, user: str | None = None
    ) -> WrittenFile:
        """Copy a file of this machine into the sandbox piece by piece."""
        file = await asyncio.to_thread(Path(source).open, "rb")
        try:
            return await self.write(path, file, user=user)
        finally:
            with shielded():
                await asyncio.to_thread(file.close)

    async def list(
        self, path: str = "", depth: int = 1, *, user: str | None = None
    ) -> list[EntryInfo]:
        """List the entries of a directory down to ``depth`` levels, parents before children."""
        if depth < 1:
            raise InvalidArgumentError("depth must be at least 1")
        request = ListDirRequest(path=path, depth=depth)
        answer = await self._call("ListDir", request, ListDirResponse, user)
        return answer.entries

    async def get_info(self, path: str, *, user: str | None = None) -> EntryInfo:
        """Describe one entry; a link is not followed."""
        return (await self._call("Stat", PathRequest(path=path), EntryResponse, user)).entry

    info = get_info

    async def exists(self, path: str, *, user: str | None = None) -> bool:
        """Return whether the path exists."""
        try:
            await self.info(path, user=user)
        except NotFoundError:
            return False
        return True

    async def make_dir(self, path: str, *, user: str | None = None) -> bool:
        """Make a directory and its parents; false when it exists already."""
        try:
            await self._call("MakeDir", PathRequest(path=path), EntryResponse, user)
        except AlreadyExistsError:
            return False
        return True

    async def rename(self, source: str, destination: str, *, user: str | None = None) -> EntryInfo:
        """Move a file or directory; an existing file at the destination is replaced."""
        request = MoveRequest(source=source, destination=destination)
        return (await self._call("Move", request, EntryResponse, user)).entry

    async def remove(self, path: str, *, user: str | None = None) -> None:
        """Remove a file, or a directory with its contents; do nothing for a missing path."""
        await self._call("Remove", PathRequest(path=path), Empty, user)

    async def watch_dir(
        self,
        path: str,
        recursive: bool = False,
        *,
        include_entry: bool = False,
        user: str | None = None,
    ) -> Watch:
        """Report what changes in a directory from now on, until the watch is closed."""
        request = WatchDirRequest(path=path, recursive=recursive, include_entry=include_entry)
        stream = await self._runtime.stream(
            "filesystem.Filesystem/WatchDir", request, WatchDirResponse, user=user
        )
        return await Watch.begin(stream)

    watch = watch_dir

    def download_url(
        self, path: str, *, user: str | None = None, expires_in: int | None = None
    ) -> str:
        """Return a signed address from which any HTTP client can fetch the file.

        It expires after ``expires_in`` seconds; by default it does not.
        """
        return self._signed_url(path, "read", user, expires_in)

    def upload_url(
        self, path: str = "", *, user: str | None = None, expires_in: int | None = None
    ) -> str:
        """Return a signed address to which any HTTP client can post a form or raw bytes.

        It expires after ``expires_in`` seconds; by default it does not.
        """
        return self._signed_url(path, "write", user, expires_in)

    def _signed_url(
        self, path: str, operation: str, user: str | None, expires_in: int | None
    ) -> str:
        query = {"path": path} if path else {}
        if user is not None:
            query["username"] = user
        if (token := self._runtime.access_token) is not None:
            expiration = None if expires_in is None else int(time.time()) + expires_in
            query["signature"] = sign(path, operation, user or "", token, expiration)
            if expiration is not None:
                query["signature_expiration"] = str(expiration)
        return f"{self._runtime.public_url('/files')}?{urlencode(query)}"

    async def _open(self, path: str, user: str | None, *, is_compressed: bool = True) -> FileStream:
        params = {"path": path} | ({} if user is None else {"username": user})
        url = self._runtime.url("/files")
        # On loopback, compression takes longer than sending the bytes.
        is_local = is_loopback(urlsplit(url).hostname or "")
        headers = {"Accept-Encoding": "gzip" if is_compressed and not is_local else "identity"}
        response = await self._runtime.transport.open(
            "GET",
            url,
            headers=self._runtime.headers() | headers,
            params=params,
            timeout=STREAM_SILENCE,
        )
        return FileStream(await raise_for_status(response))

    async def _call(self, method: str, request: Any, answer: type[Any], user: str | None) -> Any:
        return await self._runtime.call(
            f"filesystem.Filesystem/{method}", request, answer, user=user
        )


class FileStream:
    """A file that is being read: an async iterator of bytes, closed at its end or by ``aclose``."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._chunks = response.aiter_bytes()
        stated = response.headers.get("Content-Length")
        encoded = response.headers.get("Content-Encoding", "identity") != "identity"
        self.size = int(stated) if stated is not None and not encoded else None
        """Size in bytes; ``None`` where the sandbox does not state it."""

    def __aiter__(self) -> FileStream:
        return self

    async def __anext__(self) -> bytes:
        try:
            with translated_errors():
                return await anext(self._chunks)
        except BaseException:
            await self.aclose()
            raise

    async def __aenter__(self) -> FileStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._response.aclose()


async def read_at_most(files: Files, path: str, most: int) -> bytes | None:
    """Read a file as bytes; None for one of more than ``most`` bytes, which is not read on.

    The size in ``EntryInfo`` says little: it is a link's own, and a file may grow after it.
    """
    content = bytearray()
    # A piece of gzip's may grow a thousandfold before its size is known.
    stream = await files._open(path, None, is_compressed=False)  # pyright: ignore[reportPrivateUsage] - not public, nor is this
    async with stream:
        async for chunk in stream:
            content += chunk
            if len(content) > most:
                return None
    return bytes(content)


async def download_at_most(files: Files, path: str, target: str | Path, most: int) -> int | None:
    """Copy a file as ``Files.download`` does; None for one of more than ``most`` bytes.

    Nothing stays at ``target`` of a file that is larger or whose copy does not come to its end.
    """
    size = None
    async with await files.read(path, "stream") as stream:
        try:
            copied = await _save(stream, target, most)
            size = copied if copied <= most else None
        finally:
            if size is None:
                with shielded():
                    await asyncio.to_thread(Path(target).unlink, missing_ok=True)
    return size


async def _save(stream: FileStream, target: str | Path, most: float = math.inf) -> int:
    """Write a stream to a file of this machine; return its size, or more than ``most``."""
    size = 0
    file = await asyncio.to_thread(Path(target).open, "wb")
    try:
        async for chunk in stream:
            size += len(chunk)
            if size > most:
                break
            await asyncio.to_thread(file.write, chunk)
    finally:
        with shielded():
            await asyncio.to_thread(file.close)
    return size


def _body(content: FileContent) -> bytes | AsyncIterator[bytes]:
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if hasattr(content, "read"):
        return _pieces_of_file(cast("IO[Any]", content))
    if hasattr(content, "__aiter__"):
        return _pieces(cast("AsyncIterable[bytes]", content))
    if hasattr(content, "__iter__"):
        return _pieces_of_iterable(cast("Iterable[bytes]", content))
    raise InvalidArgumentError(f"cannot write a {type(content).__name__} to a file")


async def _pieces_of_file(file: IO[Any]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, CHUNK_SIZE):
        yield chunk.encode() if isinstance(chunk, str) else chunk


async def _pieces(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk


async def _pieces_of_iterable(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    end = object()
    iterator = iter(chunks)
    while (chunk := await asyncio.to_thread(next, iterator, end)) is not end:
        yield cast("bytes", chunk)
