"""Sources and targets of copies: the files of one sandbox, as a copy needs them."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.client.cleanup import shielded
from sbx_jupyter.client.files.files import Files
from sbx_jupyter.errors import InvalidArgumentError, NotFoundError, SbxError
from sbx_jupyter.protocol.runtime import DIRECTORY, FILE
from sbx_jupyter.server.files.entries import read_entries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from sbx_jupyter.client.api.runtime import RuntimeClient
    from sbx_jupyter.protocol.runtime import EntryInfo

MAX_DEPTH: Final = 100
_KINDS: Final = {FILE: "file", DIRECTORY: "directory"}
_MAX_NAME_BYTES: Final = 255
_PART: Final = ".sbx-part-"
_OLD: Final = ".sbx-old-"


@dataclass(frozen=True, slots=True)
class Found:
    """One entry of a place; ``kind`` is ``file``, ``directory`` or ``other``."""

    name: str
    path: str
    kind: str
    size: int = 0
    is_link: bool = False


class Place(Protocol):
    """Somewhere with files. All calls raise ``SbxError``; paths are those of the place."""

    async def find(self, path: str) -> Found | None:
        """The entry at ``path``, a link as what it leads to; ``None`` if there is none."""
        ...

    def tree(self, path: str) -> AsyncGenerator[Found]:
        """All that is below a directory, parents first; links are not followed."""
        ...

    async def names(self, path: str) -> set[str]:
        """The names in a directory; none if there is no such directory."""
        ...

    def read(self, found: Found) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The content of a file, some at a time."""
        ...

    async def write(self, path: str, content: AsyncIterator[bytes]) -> None:
        """Write a file under another name, then move it to ``path``, over one that is there."""
        ...

    async def make_dir(self, path: str) -> None:
        """Make a directory unless it is there."""
        ...


class SandboxPlace:
    """The files of a sandbox, which its code may change at any time."""

    def __init__(self, runtime: RuntimeClient) -> None:
        self._runtime = runtime
        self._files = Files(runtime)

    async def find(self, path: str) -> Found | None:
        try:
            return _found(await self._files.get_info(path))
        except NotFoundError:
            return None

    async def tree(self, path: str) -> AsyncGenerator[Found]:
        async with contextlib.aclosing(read_entries(self._runtime, path, MAX_DEPTH)) as pieces:
            async for entries in pieces:
                for entry in entries:
                    yield _found(entry)

    async def names(self, path: str) -> set[str]:
        try:
            async with contextlib.aclosing(read_entries(self._runtime, path)) as pieces:
                return {entry.name async for entries in pieces for entry in entries}
        except NotFoundError:
            return set()

    @contextlib.asynccontextmanager
    async def read(self, found: Found) -> AsyncGenerator[AsyncIterator[bytes]]:
        async with await self._files.read(found.path, "stream") as stream:
            yield stream

    async def write(self, path: str, content: AsyncIterator[bytes]) -> None:
        part = part_name(path)
        try:
            await self._files.write(part, content)
            await self._files.rename(part, path)
        except BaseException:
            with shielded(), contextlib.suppress(SbxError):
                await self._files.remove(part)
            raise

    async def make_dir(self, path: str) -> None:
        await self._files.make_dir(path)


def _found(entry: EntryInfo) -> Found:
    kind = _KINDS.get(entry.type, "other")
    size = entry.size if kind == "file" and not entry.is_link else 0
    return Found(entry.name, entry.path, kind, size, entry.is_link)


def part_name(path: str) -> str:
    """A name beside ``path`` for a file that is not whole yet."""
    return _marked(path, _PART)


def old_name(path: str) -> str:
    """A name beside ``path`` for the file that is there, while another one takes its place."""
    return _marked(path, _OLD)


def _marked(path: str, mark: str) -> str:
    folder, slash, name = path.rpartition("/")
    mark = f"{mark}{secrets.token_hex(4)}"
    room = _MAX_NAME_BYTES - len(mark)
    short = name.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    return f"{folder}{slash}{short}{mark}"


def inner_path(root: str, found: Found) -> str:
    """The path of an entry below ``root``; raises ``InvalidArgumentError`` if it leads out of it.

    Code in a sandbox chooses names, and may answer in the place of the agent.
    """
    prefix = root.rstrip("/") + "/"
    inside = found.path.removeprefix(prefix)
    if inside == found.path or any(part in ("", ".", "..") for part in inside.split("/")):
        raise InvalidArgumentError("its name leads out of the folder")
    return inside
