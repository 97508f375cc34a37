"""The files of one sandbox (interface 3.4, 4.4 to 4.6).

The agent lists and changes entries. Contents are read and written here, through descriptors that
the agent opens.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.engine.live import descriptors, freeing
from sbx_jupyter.engine.live.agent import decode_reply, malformed
from sbx_jupyter.errors import InternalError, NoSpaceError
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol.runtime import EntryInfo, WrittenFile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from sbx_jupyter.engine.live.agent import AgentCaller
    from sbx_jupyter.isolation.channel import Reply

_FLUSH_SIZE: Final = 1024 * 1024
_COPY_TIMEOUT: Final = 600.0
_TREE_TIMEOUT: Final = 120.0
_LONG_LISTING: Final = 1024 * 1024
_LISTING: Final = re.compile(rb'\{"sizes":\[([0-9,]{0,1000})\],"entries":\[')
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_disk = ThreadPoolExecutor(max_workers=8, thread_name_prefix="sbx-disk")
"""Threads for writes. The page cache usually takes a write at once and the thread costs 60 us, but
a write can block for long when the cache is full or the disk is slow."""


class _Entry(msgspec.Struct, frozen=True):
    entry: EntryInfo


class _Entries(msgspec.Struct, frozen=True):
    entries: list[EntryInfo]


class _Resolved(msgspec.Struct, frozen=True):
    path: str


class _Opened(msgspec.Struct, frozen=True):
    path: str
    name: str
    size: int
    mtime_ns: int
    streamed: bool = False


class _Created(msgspec.Struct, frozen=True):
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
    draft where the file has content already, which they replace when the file is closed. What was
    written to a new file before a failure stays.
    """

    def __init__(
        self,
        fd: int,
        created: _Created,
        replace: Callable[[int], Awaitable[tuple[int, _Created]]] | None = None,
    ) -> None:
        """``replace`` is there for a draft: opens the file, which has room for that many bytes."""
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
        """What a file without a name holds until it is closed."""
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
                target, created = await self._replace(self._size)
                self.metadata = created.metadata or None
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


class Files:
    """The file operations of one sandbox.

    ``user`` decides how paths are resolved and who owns new entries; ``None`` is the default user.
    Each method raises the errors listed in interface 3.4 and 4.4 to 4.6, and ``UnavailableError``
    when the sandbox does not answer.
    """

    def __init__(self, agent: AgentCaller) -> None:
        self._agent = agent
        self.is_full = False
        """Set while the writable layer is larger than its limit; writes are refused then."""
        self._open: weakref.WeakSet[WritableFile] = weakref.WeakSet()

    @property
    def is_written(self) -> bool:
        """Whether a file is open for writing from outside of the sandbox."""
        return any(file.is_open for file in self._open)

    @property
    def drafted_bytes(self) -> int:
        """What is on the sandbox's disk under no name, from outside of the sandbox."""
        return sum(file.drafted_bytes for file in self._open)

    async def stat(self, path: str, user: str | None = None) -> EntryInfo:
        """The entry at a path; raises ``NotFoundError``."""
        reply = await self._call(ops.STAT, path=path, user=user)
        return decode_reply(reply, _Entry).entry

    async def list_dir(self, path: str, depth: int = 1, user: str | None = None) -> list[EntryInfo]:
        """The entries down to ``depth`` levels, parents first, sorted by name."""
        reply = await self._call(
            ops.LIST_DIR, timeout=_TREE_TIMEOUT, path=path, user=user, depth=max(1, depth)
        )
        return await _read_listing(reply)

    async def make_dir(self, path: str, user: str | None = None) -> EntryInfo:
        """Make a directory and its parents; raises ``AlreadyExistsError``."""
        reply = await self._call(ops.MAKE_DIR, path=path, user=user)
        return decode_reply(reply, _Entry).entry

    async def move(self, source: str, destination: str, user: str | None = None) -> EntryInfo:
        """Rename; replaces a file at the destination."""
        reply = await self._call(ops.MOVE, source=source, destination=destination, user=user)
        return decode_reply(reply, _Entry).entry

    async def remove(self, path: str, user: str | None = None) -> None:
        """Remove a file or a whole directory; a missing path is fine."""
        await self._call(ops.REMOVE, timeout=_TREE_TIMEOUT, path=path, user=user)

    async def resolve(self, path: str, user: str | None = None) -> str:
        """The absolute form of a path, which need not exist."""
        reply = await self._call(ops.RESOLVE, path=path, user=user)
        return decode_reply(reply, _Resolved).path

    async def open_read(self, path: str, user: str | None = None) -> OpenFile:
        """Open a regular file for reading (interface 4.4)."""
        reply = await self._agent.call(ops.OPEN, path=path, user=user)
        (fd,) = descriptors.take(reply.fds, descriptors.is_regular_file)
        try:
            opened = decode_reply(reply, _Opened)
        except InternalError:
            os.close(fd)
            raise
        size = 0 if opened.streamed else os.fstat(fd).st_size
        return OpenFile(fd, opened.path, opened.name, size, opened.mtime_ns, opened.streamed)

    def _check_room(self) -> None:
        if self.is_full:
            raise NoSpaceError("the sandbox has used up its disk")

    async def open_write(
        self, path: str, user: str | None = None, metadata: dict[str, str] | None = None
    ) -> WritableFile:
        """Open a file for writing; ``metadata`` replaces its metadata (4.5).

        Earlier content is replaced when the file is closed, or at once where the file system has
        no nameless files.
        """
        self._check_room()
        wanted = {"path": path, "user": user, "metadata": metadata or {}}
        fd, created = await self._create(draft=True, **wanted)
        replace = partial(self._replace, wanted) if created.is_draft else None
        file = WritableFile(fd, created, replace)
        self._open.add(file)
        return file

    async def _replace(self, wanted: dict[str, Any], size: int) -> tuple[int, _Created]:
        return await self._create(size=size, **wanted)

    async def _create(self, **fields: Any) -> tuple[int, _Created]:
        reply = await self._agent.call(ops.CREATE, **fields)
        (fd,) = descriptors.take(reply.fds, descriptors.is_regular_file)
        try:
            return fd, decode_reply(reply, _Created)
        except InternalError:
            os.close(fd)
            raise

    async def compose(
        self, sources: Sequence[str], destination: str, user: str | None = None
    ) -> WrittenFile:
        """Join files into one at ``destination`` and remove them (interface 4.6)."""
        self._check_room()
        reply = await self._call(
            ops.COMPOSE,
            timeout=_COPY_TIMEOUT,
            sources=list(sources),
            destination=destination,
            user=user,
        )
        created = decode_reply(reply, _Created)
        return WrittenFile(path=created.path, name=created.name, type="file")

    async def _call(self, op: str, *, timeout: float = 30, **fields: Any) -> Reply:
        """Call the agent for a reply without descriptors."""
        reply = await self._agent.call(op, timeout=timeout, **fields)
        descriptors.close_all(reply.fds)
        return reply


async def _read_listing(reply: Reply) -> list[EntryInfo]:
    """Decode a listing; a long one in pieces, so that it does not block the event loop."""
    raw = reply.raw
    head = _LISTING.match(raw)
    if head is None or len(raw) < _LONG_LISTING:
        return decode_reply(reply, _Entries).entries
    entries: list[EntryInfo] = []
    at = head.end()
    try:
        for size in map(int, head[1].split(b",")):
            piece = b"[%b]" % raw[at : at + size]
            entries += msgspec.json.decode(piece, type=list[EntryInfo], strict=False)
            at += size + 1
            await asyncio.sleep(0)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise malformed(error) from error
    if raw[at - 1 :] != b"]}":
        raise malformed("a listing of another size")
    return entries


def _write_error(error: OSError, path: str) -> NoSpaceError | InternalError:
    if error.errno in _NO_SPACE:
        return NoSpaceError(f"not enough disk space available to write '{path}'")
    return InternalError(f"writing '{path}' failed: {error.strerror}")
