"""The notebook files of the Jupyter server, read and written through its contents manager.

So its settings hold: the root directory, hidden files, hooks, another storage.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from jupyter_core.utils import ensure_async
from jupyter_server.services.contents.fileio import FileManagerMixin
from tornado.web import HTTPError

from sbx_jupyter.client.cleanup import shielded
from sbx_jupyter.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    SbxError,
)
from sbx_jupyter.server.copies.places import MAX_DEPTH, Found, old_name, part_name

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator

    from jupyter_server.services.contents.manager import ContentsManager

CHUNK: Final = 1024 * 1024
MAX_WHOLE: Final = 64 * 1024 * 1024
"""Bytes of a file that a contents manager without files on a disk must give at once."""


class _UnfinishedError(InternalError):
    """A file was neither replaced nor left as it was; the message says where both are."""


class NotebookPlace:
    """The notebook files; paths are relative to their root."""

    def __init__(self, contents: ContentsManager) -> None:
        self._contents: Any = contents  # its methods have no annotations
        self._on_disk = isinstance(contents, FileManagerMixin)

    async def find(self, path: str) -> Found | None:
        try:
            return _found(await self._get(path))
        except NotFoundError:
            return None

    async def tree(self, path: str) -> AsyncGenerator[Found]:
        waiting = [(path, 1)]
        while waiting:
            folder, depth = waiting.pop()
            if depth > MAX_DEPTH:
                raise ResourceExhaustedError(f"folders are nested more than {MAX_DEPTH} deep")
            model = await self._get(folder, type="directory", content=True)
            for each in cast("list[dict[str, Any]]", model["content"]):
                found = _found(each, is_link=self._is_link(each["path"]))
                yield found
                if found.kind == "directory" and not found.is_link:
                    waiting.append((found.path, depth + 1))

    async def names(self, path: str) -> set[str]:
        try:
            model = await self._get(path, type="directory", content=True)
        except NotFoundError:
            return set()
        return {each["name"] for each in cast("list[dict[str, Any]]", model["content"])}

    @contextlib.asynccontextmanager
    async def read(self, found: Found) -> AsyncGenerator[AsyncIterator[bytes]]:
        await self._get(found.path, type="file")  # refuses hidden files and paths elsewhere
        if not self._on_disk:
            yield self._whole(found)
            return
        file = await asyncio.to_thread(_open, self._os_path(found.path))
        try:
            yield _pieces(file)
        finally:
            with shielded():
                await asyncio.to_thread(file.close)

    async def write(self, path: str, content: AsyncIterator[bytes]) -> None:
        self._refuse_hidden(path)
        part = part_name(path)
        try:
            await self._save(part, content)
        except BaseException:
            await self._drop(part)
            raise
        # A copy that is cancelled between these steps must leave the file under its name.
        await _to_the_end(self._put(part, path))

    async def make_dir(self, path: str) -> None:
        self._refuse_hidden(path)
        found = await self.find(path)
        if found is None:
            await self._call("save", {"type": "directory"}, path)
        elif found.kind != "directory":
            raise InvalidArgumentError("there is a file of this name")

    async def _put(self, part: str, path: str) -> None:
        """Move a whole file to its name; drops it when it cannot be there."""
        try:
            if await self._is_file(path):
                await self._replace(part, path)
            else:
                await self._call("rename_file", part, path)
        except _UnfinishedError as error:
            self._contents.log.error("Copying to %s: %s", path, error.message)
            raise
        except BaseException:
            await self._drop(part)
            raise

    async def _replace(self, part: str, path: str) -> None:
        """Move a file over another, which is deleted last, and put back when anything fails.

        The contents API has no rename over a file that is there.
        """
        old = old_name(path)
        moved: list[tuple[str, str]] = []
        try:
            for pair in ((path, old), (part, path)):
                await self._call("rename_file", *pair)
                moved.append(pair)
            await self._delete_old(old)
        except BaseException:
            try:
                await self._move_back(moved)
            except SbxError as error:
                new = part if len(moved) == 1 else path
                text = f"the old file is now '{old}', and the new one is '{new}'"
                raise _UnfinishedError(text) from error
            raise

    async def _delete_old(self, old: str) -> None:
        try:
            if await self._is_file(old):  # and no folder that came just before it was moved
                await self._call("delete_file", old)  # to the trash, if that is set
        except NotFoundError:
            return  # somebody else has removed it

    async def _move_back(self, moved: list[tuple[str, str]]) -> None:
        while moved:
            source, target = moved[-1]
            await self._call("rename_file", target, source)
            moved.pop()

    async def _is_file(self, path: str) -> bool:
        """Whether a file, notebook or link to one is there; raises for a folder or link to one."""
        found = await self.find(path)
        if found is not None and found.kind != "file":
            raise AlreadyExistsError("there is a folder of this name")
        return found is not None

    async def _drop(self, part: str) -> None:
        with shielded(), contextlib.suppress(SbxError):
            if await self.find(part) is not None:
                # Not ``delete``, which may move it to the trash.
                await self._remove_part(part)

    async def _remove_part(self, part: str) -> None:
        if self._on_disk:
            await asyncio.to_thread(Path(self._os_path(part)).unlink, missing_ok=True)
        else:
            await self._call("delete_file", part)

    async def _save(self, path: str, content: AsyncIterator[bytes]) -> None:
        """Save in chunks, the last of which has the number -1."""
        number, held = 1, bytearray()
        async for chunk in content:
            held += chunk
            while len(held) > CHUNK:
                await self._save_chunk(path, bytes(held[:CHUNK]), number)
                del held[:CHUNK]
                number += 1
        await self._save_chunk(path, bytes(held), None if number == 1 else -1)

    async def _save_chunk(self, path: str, content: bytes, number: int | None) -> None:
        text = base64.b64encode(content).decode("ascii")
        model: dict[str, Any] = {"type": "file", "format": "base64", "content": text}
        if number is not None:
            model["chunk"] = number
        await self._call("save", model, path)

    async def _whole(self, found: Found) -> AsyncIterator[bytes]:
        if found.size > MAX_WHOLE:
            raise ResourceExhaustedError(f"the file is larger than {MAX_WHOLE} bytes")
        model = await self._get(found.path, type="file", format="base64", content=True)
        yield base64.b64decode(model["content"])

    async def _get(self, path: str, **options: Any) -> dict[str, Any]:
        return await self._call("get", path, **{"content": False, **options})

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of the contents manager, which may be a coroutine."""
        with _translated():
            return await ensure_async(getattr(self._contents, name)(*args, **options))

    def _os_path(self, path: str) -> str:
        # The contents API has no streams; Jupyter's own download route asks for it, too.
        with _translated():
            return self._contents._get_os_path(path.strip("/"))

    def _is_link(self, path: str) -> bool:
        return self._on_disk and Path(self._os_path(path)).is_symlink()

    def _refuse_hidden(self, path: str) -> None:
        """Jupyter does so for a file that is saved at once, not for one saved in chunks."""
        if any(not part.isprintable() for part in path.split("/")):
            raise InvalidArgumentError("its name has control characters")
        if not self._contents.allow_hidden and any(
            part.startswith(".") for part in path.split("/") if part
        ):
            raise PermissionDeniedError(
                "hidden files are off here (c.ContentsManager.allow_hidden)"
            )


def _found(model: dict[str, Any], *, is_link: bool = False) -> Found:
    kind = "directory" if model["type"] == "directory" else "file"
    size = 0 if is_link else int(model.get("size") or 0)
    return Found(model["name"], model["path"], kind, size, is_link)


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await ``work`` to its end, and only then let a cancelled caller go."""
    task = asyncio.create_task(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError from (None if task.cancelled() else task.exception())
    task.result()


def _open(path: str) -> IO[bytes]:
    """Open a regular file; a pipe would wait for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise PermissionDeniedError(f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidArgumentError("not a regular file")
    return os.fdopen(descriptor, "rb")


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, CHUNK):
        yield chunk


@contextlib.contextmanager
def _translated() -> Generator[None]:
    """Raise the contents manager's errors as ours, with its sentences."""
    try:
        yield
    except HTTPError as error:
        # Tornado doubles the percent signs of a message without arguments.
        text = error.log_message % error.args if error.log_message else str(error)
        kinds = {404: NotFoundError, 403: PermissionDeniedError, 400: InvalidArgumentError}
        raise kinds.get(error.status_code, InternalError)(text) from error
    except (OSError, ValueError) as error:
        raise InternalError(f"the notebook files do not take it: {error}") from error
