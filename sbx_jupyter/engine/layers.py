"""Layers: read-only directories that sandboxes start from, named by the rows that use them."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import uuid
from collections import Counter
from typing import TYPE_CHECKING

from sbx_jupyter.engine.datadir import translate
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from sbx_jupyter.engine.datadir import DataDir
    from sbx_jupyter.engine.store import Store
    from sbx_jupyter.isolation.fence import Fence

_log = logging.getLogger(__name__)
_libc = ctypes.CDLL(None, use_errno=True)


class Layers:
    """Makes layers and removes those that no row names any more."""

    def __init__(self, data_dir: DataDir, store: Store, fence: Fence) -> None:
        self._data_dir = data_dir
        self._store = store
        self._fence = fence
        self._reserved: set[str] = set()
        self._held: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def reserve(self) -> AsyncIterator[str]:
        """A name for a layer to be made; it is safe from collection until the context ends.

        Commit the row that names it inside. What was made and is named by no row is removed.
        """
        name = f"layers/{uuid.uuid4()}"
        self._reserved.add(name)
        try:
            yield name
        finally:
            self._reserved.discard(name)
            await self.collect((name,))

    @contextlib.contextmanager
    def hold(self, names: tuple[str, ...]) -> Iterator[None]:
        """Keep layers that there are from collection until the context ends."""
        self._held.update(names)
        try:
            yield
        finally:
            self._held.subtract(names)

    async def measure(self, sandbox_id: str) -> int:
        """The bytes that a sandbox has written; raises ``SbxError``."""
        return (await self._fence.measure(self._data_dir.writable(sandbox_id)))[0]

    async def seal(self, sandbox_id: str, name: str) -> None:
        """Make what a sandbox wrote a layer, after its processes ended; not yet on the disk.

        Takes the writable directory itself and so no time, whatever is in it. Raises
        ``NoSpaceError`` and ``SbxError``.
        """
        source = self._data_dir.writable(sandbox_id) / "upper"
        try:
            await asyncio.to_thread(source.rename, self._data_dir.path / name)
        except PermissionError:
            # Its owner inside shut us out: the helper that acts as that owner can still copy it.
            await self.capture(sandbox_id, name)

    async def capture(
        self, sandbox_id: str, name: str, *, since_ns: int = 0, still: bool = True
    ) -> None:
        """Copy the writable layer of a sandbox; not yet on the disk.

        ``still`` says that the sandbox is frozen. A copy of a running one becomes exact by a
        second one, frozen, of what changed since ``since_ns``, the time when the first began.
        Raises ``NoSpaceError`` when the disk is full.
        """
        source = self._data_dir.writable(sandbox_id) / "upper"
        target = self._data_dir.path / name
        try:
            await self._fence.copy_tree(source, target, since_ns=since_ns, still=still)
        except SbxError as error:
            raise translate(error, "copying the files of the sandbox") from error

    async def settle(self, name: str) -> None:
        """Bring a layer to the disk."""
        await asyncio.to_thread(sync, self._data_dir.path / name)

    async def merge(self, names: tuple[str, ...], name: str) -> None:
        """Make one layer of several, topmost first; it is on the disk when this returns.

        Raises ``NoSpaceError`` when the disk is full.
        """
        target = self._data_dir.path / name
        with self.hold(names):
            try:
                sources = tuple(self._data_dir.path / layer for layer in names)
                await self._fence.merge_layers(sources, target)
            except SbxError as error:
                raise translate(error, "putting layers together") from error
        await asyncio.to_thread(sync, target)

    async def collect(self, candidates: tuple[str, ...] | None = None) -> None:
        """Remove layers that nothing names: of the candidates, or of all that there are."""
        if candidates is None:
            found = await asyncio.to_thread(os.listdir, self._data_dir.layers)
            candidates = tuple(f"layers/{name}" for name in found)
        used = self._used()
        for name in candidates:
            path = self._data_dir.path / name
            if name not in used and path.exists():
                try:
                    await self._fence.remove_writable(path)
                except SbxError:
                    _log.exception("the layer %s could not be removed", name)

    def _used(self) -> set[str]:
        used = self._reserved | {name for name, count in self._held.items() if count > 0}
        for row in (*self._store.sandboxes, *self._store.builds, *self._store.images):
            used.update(row.layers)
        for step in self._store.steps:
            used.update(step.layers, step.below)
        return used


def sync(directory: Path) -> None:
    """Bring the file system of a directory to the disk; blocking."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
