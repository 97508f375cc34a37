"""``Files`` for blocking code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from sbx_jupyter.client.blocking import blocking
from sbx_jupyter.client.files.files import Files, download_at_most, read_at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sbx_jupyter.client.blocking import Portal
    from sbx_jupyter.client.files.files import FileStream
    from sbx_jupyter.client.files.watch import Watch
    from sbx_jupyter.protocol.runtime import FilesystemEvent


class SyncFiles:
    """The files of one sandbox; like ``Files``, but its methods block."""

    def __init__(self, connected: Callable[[], tuple[Portal, Files]]) -> None:
        self._connected = connected

    @overload
    def read(
        self, path: str, format: Literal["text"] = "text", *, user: str | None = None
    ) -> str: ...

    @overload
    def read(self, path: str, format: Literal["bytes"], *, user: str | None = None) -> bytes: ...

    @overload
    def read(
        self, path: str, format: Literal["stream"], *, user: str | None = None
    ) -> SyncFileStream: ...

    def read(
        self,
        path: str,
        format: Literal["text", "bytes", "stream"] = "text",
        *,
        user: str | None = None,
    ) -> str | bytes | SyncFileStream:
        """Read a file: as UTF-8 text, as bytes, or as a stream to be read piece by piece."""
        portal, files = self._connected()
        if format == "stream":
            return SyncFileStream(portal, portal.call(files.read(path, format, user=user)))
        return portal.call(files.read(path, format, user=user))

    download = blocking(Files.download)
    write = blocking(Files.write)
    write_files = blocking(Files.write_files)
    upload = blocking(Files.upload)
    list = blocking(Files.list)
    get_info = blocking(Files.get_info)
    info = get_info
    exists = blocking(Files.exists)
    make_dir = blocking(Files.make_dir)
    rename = blocking(Files.rename)
    remove = blocking(Files.remove)

    def watch_dir(
        self,
        path: str,
        recursive: bool = False,
        *,
        include_entry: bool = False,
        user: str | None = None,
    ) -> SyncWatch:
        """Report what changes in a directory from now on, until the watch is closed."""
        portal, files = self._connected()
        watching = files.watch_dir(path, recursive, include_entry=include_entry, user=user)
        return SyncWatch(portal, portal.call(watching))

    watch = watch_dir

    def download_url(
        self, path: str, *, user: str | None = None, expires_in: int | None = None
    ) -> str:
        """Return a signed address from which any HTTP client can fetch the file.

        It expires after ``expires_in`` seconds; by default it does not.
        """
        return self._connected()[1].download_url(path, user=user, expires_in=expires_in)

    def upload_url(
        self, path: str = "", *, user: str | None = None, expires_in: int | None = None
    ) -> str:
        """Return a signed address to which any HTTP client can post a form or raw bytes.

        It expires after ``expires_in`` seconds; by default it does not.
        """
        return self._connected()[1].upload_url(path, user=user, expires_in=expires_in)


blocking_read_at_most = blocking(read_at_most)
blocking_download_at_most = blocking(download_at_most)


class SyncFileStream:
    """A file that is being read: an iterator of bytes, closed at its end or by ``close``."""

    def __init__(self, portal: Portal, stream: FileStream) -> None:
        self._portal = portal
        self._stream = stream
        self.size = stream.size

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._portal.call(_next_or_none(self._stream))) is not None:
            yield chunk

    def __enter__(self) -> SyncFileStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._portal.call(self._stream.aclose())


class SyncWatch:
    """The events of one directory: a blocking iterator that must be closed."""

    def __init__(self, portal: Portal, watch: Watch) -> None:
        self._portal = portal
        self._watch = watch

    def __iter__(self) -> Iterator[FilesystemEvent]:
        while (event := self._portal.call(_next_event(self._watch))) is not None:
            yield event

    def __enter__(self) -> SyncWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._portal.call(self._watch.aclose())


async def _next_or_none(stream: FileStream) -> bytes | None:
    return await anext(stream, None)


async def _next_event(watch: Watch) -> FilesystemEvent | None:
    return await anext(watch, None)
