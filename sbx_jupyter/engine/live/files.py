"""The files of one sandbox (interface 3.4, 4.4 to 4.6).

The agent lists and changes entries. Contents are read and written here, through descriptors that
the agent opens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.engine.live import descriptors
from sbx_jupyter.engine.live.agent import decode_reply, malformed
from sbx_jupyter.engine.live.open_files import Created, OpenFile, WritableFile
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import InternalError, NoSpaceError
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol.runtime import EntryInfo, WrittenFile

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sbx_jupyter.engine.live.agent import AgentCaller
    from sbx_jupyter.isolation.channel import Reply

_COPY_TIMEOUT: Final = 600.0
_TREE_TIMEOUT: Final = 120.0
_LONG_LISTING: Final = 1024 * 1024
_LISTING: Final = re.compile(rb'\{"sizes":\[([0-9,]{0,1000})\],"entries":\[')
_SETTLE_TIMEOUT: Final = 5.0


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
        self._replacements: set[asyncio.Task[Reply]] = set()
        self._may_replace = asyncio.Event()
        self._may_replace.set()

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

    async def _replace(
        self, wanted: dict[str, Any], draft: int, size: int
    ) -> tuple[int | None, Created]:
        """Let the agent put a draft into its file: it goes on with that if this process ends.

        An agent of an earlier version gives the file instead.
        """
        reached("upload.collected")
        await self._may_replace.wait()
        asked = self._agent.call(
            ops.CREATE, fds=[draft], timeout=_COPY_TIMEOUT, size=size, **wanted
        )
        replacement = asyncio.ensure_future(asked)
        self._replacements.add(replacement)
        replacement.add_done_callback(self._replacements.discard)
        try:
            # A caller that gives up does not end it, so it counts on.
            reply = await asyncio.shield(replacement)
        except asyncio.CancelledError:
            replacement.add_done_callback(_drop)
            raise
        if not reply.fds:
            return None, decode_reply(reply, Created)
        return self._open_created(reply)

    async def _create(self, **fields: Any) -> tuple[int, Created]:
        return self._open_created(await self._agent.call(ops.CREATE, **fields))

    @staticmethod
    def _open_created(reply: Reply) -> tuple[int, Created]:
        (fd,) = descriptors.take(reply.fds, descriptors.is_regular_file)
        try:
            return fd, decode_reply(reply, Created)
        except InternalError:
            os.close(fd)
            raise

    @contextlib.asynccontextmanager
    async def settled(self) -> AsyncGenerator[None]:
        """Let no file be half replaced before the processes stop; for some seconds at most.

        What is asked for meanwhile begins when the context ends.
        """
        self._may_replace.clear()
        try:
            if self._replacements:
                await asyncio.wait(set(self._replacements), timeout=_SETTLE_TIMEOUT)
            yield
        finally:
            self._may_replace.set()

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
        created = decode_reply(reply, Created)
        return WrittenFile(path=created.path, name=created.name, type="file")

    async def _call(self, op: str, *, timeout: float = 30, **fields: Any) -> Reply:
        """Call the agent for a reply without descriptors."""
        reply = await self._agent.call(op, timeout=timeout, **fields)
        descriptors.close_all(reply.fds)
        return reply


def _drop(replacement: asyncio.Task[Reply]) -> None:
    if not replacement.cancelled() and replacement.exception() is None:
        descriptors.close_all(replacement.result().fds)


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
