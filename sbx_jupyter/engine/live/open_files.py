"""Files of a sandbox that are open in the engine, for reading or for writing."""

from __future__ import annotations

import asyncio
import errno
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.live import descriptors, freeing
from sbx_jupyter.errors import InternalError, NoSpaceError
from sbx_jupyter.protocol.runtime import WrittenFile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

_FLUSH_SIZE: Final = 1024 * 1024
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_disk = ThreadPoolExecutor(max_workers=8, thread_name_prefix="sbx-disk")
"""Threads for writes. The page cache usually takes a write at once and the thread costs 60 us, but
a write can block for long when the cache is full or the disk is slow."""


class Created(msgspec.Struct, frozen=True):
    """The agent's answer about a file that was opened for writing."""

    path: str
    name: str
    metadata: dict[str, str] | None = None
    is_draft: bool = False


@dataclass(slots=True)
class OpenFile:
    """A regular file that is open for reading; the caller must close it."""

    fd: int
    path: str
    name: str
    size: int
    mtime_ns: int
    streamed: bool
    """Whether the size is unknown, as in procfs and sysfs, so that the file is read to its end."""

    def close(self) -> None:
        """Close the descriptor; may be called more than once."""
        if self.fd >= 0:
            freeing.close(self.fd)
            self.fd = -1

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class WritableFile:
    """A file that is open for writing; must be closed, or aborted after a failure.

    Bytes are collected up to a megabyte and written in a thread while more arrive. They go into a
    draft where the file has content already, which they replace when the file is closed. Bytes
    written to a new file before a failure stay there.
    """

    def __init__(
        self,
        fd: int,
        created: Created,
        replace: Callable[[int, int], Awaitable[tuple[int | None, Created]]] | None = None,
    ) -> None:
        """``replace`` is there for a draft: puts that many bytes of it into the file.

        It gives the open file, with room for them, where only the engine can do that.
        """
        self.path = created.path
        self.name = created.name
        self.metadata = created.metadata or None
        self._replace = replace
        self._size = 0
        self._fd = fd
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._flushing: Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether more may be written."""
        return self._fd >= 0

    @property
    def drafted_bytes(self) -> int:
        """Bytes in the draft, which has no name, until the file is closed; 0 without a draft."""
        return self._size if self._replace is not None and self.is_open else 0

    @property
    def written(self) -> WrittenFile:
        """The file as the answer of an upload names it."""
        return WrittenFile(path=self.path, name=self.name, type="file", metadata=self.metadata)

    async def write(self, content: bytes | bytearray | memoryview) -> None:
        """Add bytes at the end.

        Raises ``NoSpaceError`` when the disk or a quota is full, also for bytes of an earlier
        call, and ``InternalError`` for other failures.
        """
        if self._fd < 0:
            raise InternalError(f"the file '{self.path}' is closed")
        chunk = content if isinstance(content, bytes) else bytes(content)
        self._pending.append(chunk)
        self._pending_size += len(chunk)
        self._size += len(chunk)
        if self._pending_size >= _FLUSH_SIZE:
            await self._finish_flush()
            self._start_flush()

    @property
    def is_idle(self) -> bool:
        """Whether no write is running."""
        return self._flushing is None or self._flushing.done()

    async def write_borrowed(self, view: memoryview) -> None:
        """Add bytes at the end without copying them; raises as ``write`` does.

        Returns when the bytes of the previous call are written. The bytes of this call must not
        change until the next call or ``close`` returns.
        """
        if self._fd < 0:
            raise InternalError(f"the file '{self.path}' is closed")
        await self._finish_flush()
        self._start_flush()  # what ``write`` collected before
        await self._finish_flush()
        self._size += len(view)
        self._flushing = _disk.submit(descriptors.write_all, self._fd, [view])

    async def close(self) -> None:
        """Write the rest and close; raises as ``write`` does, and closes the file even then.

        A draft replaces the earlier content now, which stays after a failure before.
        """
        if self._fd < 0:
            return
        try:
            await self._finish_flush()
            self._start_flush()
            await self._finish_flush()
            if self._replace is not None:
                target, created = await self._replace(self._fd, self._size)
                self.metadata = created.metadata or None
                if target is not None:
                    self._flushing = _disk.submit(
                        descriptors.replace_content, self._fd, target, self._size
                    )
                    await self._finish_flush()
        finally:
            self._drop()

    async def abort(self) -> None:
        """Close a file whose content is not whole: the earlier content stays, if there was one.

        Raises as ``close`` does.
        """
        if self._replace is None:
            await self.close()
        elif self._fd >= 0:
            self._drop()

    async def __aenter__(self) -> WritableFile:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await (self.close() if kind is None else self.abort())

    def _start_flush(self) -> None:
        if self._pending:
            chunks, self._pending, self._pending_size = self._pending, [], 0
            self._flushing = _disk.submit(descriptors.write_all, self._fd, chunks)

    async def _finish_flush(self) -> None:
        if self._flushing is None:
            return
        try:
            await asyncio.wrap_future(self._flushing)
        except OSError as error:
            self._pending, self._pending_size = [], 0
            raise _write_error(error, self.path) from error
        finally:
            if self._flushing.done():
                self._flushing = None

    def _drop(self) -> None:
        """Close the descriptor, after the thread that still writes to it if there is one."""
        fd, self._fd = self._fd, -1
        self._pending.clear()
        if self._flushing is None:
            freeing.close(fd)
        else:
            self._flushing.add_done_callback(lambda _: freeing.close(fd))


def _write_error(error: OSError, path: str) -> NoSpaceError | InternalError:
    if error.errno in _NO_SPACE:
        return NoSpaceError(f"not enough disk space available to write '{path}'")
    return InternalError(f"writing '{path}' failed: {error.strerror}")
