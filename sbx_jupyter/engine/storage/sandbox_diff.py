"""Chooses the layers to compare for a sandbox, and compares them in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tarfile
from typing import IO, TYPE_CHECKING, Final, NamedTuple, cast

from sbx_jupyter.engine.owners import caller
from sbx_jupyter.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from sbx_jupyter.isolation.stored.archive import ArchiveReader

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.state.rows import BuildRow, SandboxRow
    from sbx_jupyter.engine.templates.catalogue import Catalogue
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence
    from sbx_jupyter.protocol.diff import Diff

MAX_EARLIER: Final = 1024 * 1024
"""Bytes of an earlier file that are read at most."""

_READERS: Final = 2
"""Earlier files that are looked for at once: each may take a thread for a whole large template, and
all other work of the engine shares few threads."""

_COMPARISONS: Final = 4
"""Comparisons at once for one owner: those of many files take minutes of a thread."""

_STOCK_BASE: Final = "host"


class _Stacks(NamedTuple):
    """Names of layers, topmost first; ``common`` are those below both of the others."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    common: tuple[str, ...]
    on_stock: bool


class Diffs:
    """Compares sandboxes with what they started from, or with a snapshot."""

    def __init__(self, context: Context, catalogue: Catalogue, fence: AnyFence) -> None:
        self._context = context
        self._catalogue = catalogue
        self._fence = fence
        self._reading = asyncio.Semaphore(_READERS)
        self._comparing: dict[str, asyncio.Semaphore] = {}

    async def diff(self, sandbox_id: str, since: str | None) -> Diff:
        """The first 100,000 changes of a sandbox against its template, or against ``since``.

        Raises ``NotFoundError`` for an unknown sandbox or snapshot and ``InvalidArgumentError``
        for a snapshot with another base.
        """
        stacks = self._stacks(sandbox_id, since)
        compare = self._fence.stored.compare
        limit = self._comparing.setdefault(caller().owner, asyncio.Semaphore(_COMPARISONS))
        async with limit:
            return await asyncio.to_thread(compare, stacks, on_stock=stacks.on_stock)

    async def archive(self, sandbox_id: str, since: str | None) -> int:
        """Write the changed files as a tar to a pipe; returns its reading end.

        The caller closes it; closing it early ends the work. Raises as ``diff`` does.
        """
        stacks = self._stacks(sandbox_id, since)
        archive = self._fence.stored.archive
        return await asyncio.to_thread(archive, stacks, on_stock=stacks.on_stock)

    async def earlier_file(self, sandbox_id: str, path: str, since: str | None) -> bytes:
        """The content of a file before the sandbox changed or deleted it.

        Raises as ``diff`` does, ``NotFoundError`` where no layer has such a file: one that the
        sandbox left as it was, or one of the host below a stock template; and
        ``ResourceExhaustedError`` for more than ``MAX_EARLIER`` bytes.
        """
        now = self._stacks(sandbox_id, since)
        before = now._replace(ours=now.theirs, theirs=now.ours)
        archive = self._fence.stored.archive
        async with self._reading:
            reader = await asyncio.to_thread(archive, before, on_stock=before.on_stock)
            return await asyncio.to_thread(_read_member, reader, path.removeprefix("/"))

    def _stacks(self, sandbox_id: str, since: str | None) -> _Stacks:
        context = self._context
        row = context.slots.find(sandbox_id).row
        base = self._base(row, since)
        if base.base != row.base:
            raise InvalidArgumentError(f"'{since}' stands on another base than the sandbox")
        # Layers merged meanwhile have the same content under another name.
        ours, theirs = (context.layers.shorten(row.layers), context.layers.shorten(base.layers))
        ours = (f"{context.data_dir.name_of_writable(sandbox_id)}/upper", *ours)
        shared = _shared_tail(ours, theirs)
        return _Stacks(
            ours=ours[: len(ours) - shared],
            theirs=theirs[: len(theirs) - shared],
            common=ours[len(ours) - shared :],
            on_stock=row.base == _STOCK_BASE,
        )

    def _base(self, row: SandboxRow, since: str | None) -> BuildRow:
        if since is not None:
            return self._catalogue.resolve(since)[1]
        build = self._context.store.builds.get(row.build_id)
        if build is None:
            raise FailedPreconditionError("the template that the sandbox started from is gone")
        return build


def _shared_tail(ours: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    pairs = zip(reversed(ours), reversed(theirs), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _read_member(reader: int, name: str) -> bytes:
    """The content of a file in the tar that a pipe gives; closes the pipe."""
    with os.fdopen(reader, "rb") as file:
        pipe = _Watched(file)
        with contextlib.suppress(tarfile.ReadError):  # nothing, or not all of it, came
            content = _find_member(pipe, name)
            if content is not None:
                return content
            while pipe.read(tarfile.RECORDSIZE):
                pass
        if not pipe.archive.is_whole:
            raise UnavailableError("the earlier files could not be read; ask again")
    raise NotFoundError(f"what /{name} was before is not kept in a layer")


def _find_member(pipe: _Watched, name: str) -> bytes | None:
    with tarfile.open(fileobj=cast("IO[bytes]", pipe), mode="r|") as archive:
        for member in archive:
            # It would keep one for each entry; typeshed does not know the attribute.
            archive.members = []  # pyright: ignore[reportAttributeAccessIssue]
            if member.name != name or not member.isreg():
                continue
            if member.size > MAX_EARLIER:
                raise ResourceExhaustedError(f"/{name} had more than {MAX_EARLIER} bytes")
            content = archive.extractfile(member)
            return b"" if content is None else content.read()
    return None


class _Watched:
    """A pipe that an archive is read from, and whether all of it came."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.archive = ArchiveReader()

    def read(self, size: int) -> bytes:
        while chunk := self._file.read(size):
            if passed := self.archive.pass_on(chunk):
                return passed
        return b""
