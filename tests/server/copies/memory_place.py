"""A place whose files are in a dictionary; directories are keys with ``None``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sbx_jupyter.errors import NotFoundError, PermissionDeniedError
from sbx_jupyter.server.copies.places import Found

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class MemoryPlace:
    def __init__(self, files=(), *, entries=(), broken=(), refused=()):
        self.files = dict(files)
        self.entries = entries
        self.broken = broken
        self.refused = refused
        self.when_read: Callable[[], Awaitable[None]] | None = None

    async def find(self, path):
        return self._found(path) if path in self.files else None

    def _found(self, path) -> Found:
        content = self.files[path]
        kind = "directory" if content is None else "file"
        return Found(path.rpartition("/")[2], path, kind, len(content or b""))

    async def tree(self, path):
        for each in self.entries:
            yield each
        for each in sorted(self.files):
            if each.startswith(f"{path}/"):
                yield self._found(each)

    async def names(self, path):
        return {each.rpartition("/")[2] for each in self.files if each.rpartition("/")[0] == path}

    @contextlib.asynccontextmanager
    async def read(self, found):
        if found.path in self.broken:
            raise NotFoundError("gone")
        yield self._pieces(found)

    async def _pieces(self, found):
        content = self.files[found.path]
        for start in range(0, len(content), 4):
            if self.when_read is not None:
                await self.when_read()
            yield content[start : start + 4]

    async def write(self, path, content):
        if path in self.refused:
            raise PermissionDeniedError("refused")
        self.files[path] = b"".join([chunk async for chunk in content])

    async def make_dir(self, path):
        if path in self.refused:
            raise PermissionDeniedError("refused")
        self.files.setdefault(path, None)
