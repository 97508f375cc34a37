"""Layers: read-only directories that sandboxes start from, named by the rows that use them."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from sbx_jupyter.engine.state.datadir import translate
from sbx_jupyter.engine.state.rows import MergeRow
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.storage.layer_stacks import Stack, shorten, stacks_of, used_merges
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError
from sbx_jupyter.isolation.kernel import subvolumes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from pathlib import Path

    from sbx_jupyter.engine.state.datadir import DataDir
    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.isolation.fence import Fence
    from sbx_jupyter.isolation.zygote.progress import Progress

_log = logging.getLogger(__name__)
_MEASURED_AT_ONCE: Final = 50
_libc = ctypes.CDLL(None, use_errno=True)


class Size(NamedTuple):
    """What a layer takes on the disk."""

    bytes: int
    inodes: int


class Layers:
    """Makes layers and removes those that no row names any more."""

    def __init__(self, data_dir: DataDir, store: Store, fence: Fence) -> None:
        self._data_dir = data_dir
        self._store = store
        self._fence = fence
        self._reserved: set[str] = set()
        self._held: Counter[str] = Counter()
        self._sizes: dict[str, Size] = {}

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
        roots = [_root(name) for name in names]
        self._held.update(roots)
        try:
            yield
        finally:
            self._held.subtract(roots)

    async def measure(self, sandbox_id: str) -> int:
        """The bytes that a sandbox has written; raises ``SbxError``."""
        return (await self._fence.measure(self._data_dir.writable(sandbox_id)))[0]

    async def sizes(self, names: Iterable[str]) -> dict[str, Size]:
        """What each layer takes; it never changes, so each is measured once. ``SbxError``."""
        unknown = [name for name in dict.fromkeys(names) if name not in self._sizes]
        for start in range(0, len(unknown), _MEASURED_AT_ONCE):
            part = unknown[start : start + _MEASURED_AT_ONCE]
            found = await self._fence.measure_trees([self._data_dir.path / name for name in part])
            for name, size in zip(part, found, strict=True):
                if size is not None:
                    self._sizes[name] = Size(*size)
        return {name: self._sizes.get(name, Size(0, 0)) for name in names}

    def shorten(self, stack: Stack) -> Stack:
        """The stack to start from instead: what was merged since is in it as one layer."""
        return shorten(stack, self._store.merges)

    async def seal(self, sandbox_id: str, name: str) -> None:
        """Make what a sandbox wrote a layer, after its processes ended; not yet on the disk.

        Takes the writable directory itself and so no time, whatever is in it. Raises
        ``NoSpaceError`` and ``SbxError``.
        """
        source = self._data_dir.writable(sandbox_id) / "upper"
        try:
            await asyncio.to_thread(source.rename, self._data_dir.path / name)
        except OSError as error:
            if not isinstance(error, PermissionError) and error.errno != errno.EXDEV:
                raise
            # Its owner inside shut us out: the helper that acts as that owner can still copy it.
            # And nothing can be moved out of a subvolume.
            await self.capture(sandbox_id, name)

    async def is_instant(self, sandbox_id: str) -> bool:
        """Whether ``take`` can capture the sandbox."""
        return await asyncio.to_thread(subvolumes.is_subvolume, self._data_dir.writable(sandbox_id))

    async def take(self, sandbox_id: str, name: str) -> str:
        """Capture a frozen sandbox at once, whatever it has written; the name of the layer.

        It is on the disk when this returns. Raises ``NoSpaceError`` and ``SbxError``.
        """
        source, target = self._data_dir.writable(sandbox_id), self._data_dir.path / name
        try:
            await asyncio.to_thread(subvolumes.take_snapshot, source, target)
        except OSError as error:
            raise translate(error, "taking a snapshot of the files of the sandbox") from error
        return f"{name}/upper"

    async def flush(self, sandbox_id: str) -> None:
        """Bring what a sandbox has written to the disk."""
        await asyncio.to_thread(sync, self._data_dir.writable(sandbox_id))

    async def capture(
        self,
        sandbox_id: str,
        name: str,
        *,
        since_ns: int = 0,
        still: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Copy the writable layer of a sandbox; not yet on the disk.

        ``still`` says that the sandbox is frozen. A copy of a running one becomes exact by a
        second one, frozen, of what changed since ``since_ns``, the time when the first began.
        Raises ``NoSpaceError`` when the disk is full, ``CanceledError``.
        """
        source = self._data_dir.writable(sandbox_id) / "upper"
        target = self._data_dir.path / name
        try:
            await self._fence.copy_tree(
                source, target, since_ns=since_ns, still=still, progress=progress
            )
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

    async def collect(self, candidates: Iterable[str] | None = None) -> int:
        """Remove layers that nothing names: of the candidates, or of all that there are.

        Gives the number of layers that were removed.
        """
        if candidates is None:
            found = await asyncio.to_thread(os.listdir, self._data_dir.layers)
            candidates = [f"layers/{name}" for name in found]
        candidates = [*candidates, *await self._forget_merges()]
        used = self.used()
        removed = 0
        for name in dict.fromkeys(map(_root, candidates)):
            path = self._data_dir.path / name
            if name in used or not path.exists():
                continue
            reached("layers.unused")
            try:
                await self._fence.remove_writable(path)
            except SbxError:
                _log.exception("the layer %s could not be removed", name)
                continue
            for known in (name, f"{name}/upper"):
                self._sizes.pop(known, None)
            removed += 1
            reached("layers.removed")
        return removed

    async def _forget_merges(self) -> list[str]:
        """Forget the merged layers that stand for nothing any more; those whose rows are gone."""
        used = used_merges(self._store)
        gone = [row.key for row in self._store.merges if row.key not in used | self._reserved]
        if not gone:
            return []
        batch = Batch()
        for key in gone:
            batch.remove(MergeRow, key)
        try:
            await self._store.commit(batch)
        except SbxError:
            _log.exception("%d merged layers could not be forgotten", len(gone))
            return []
        reached("merges.forgotten")
        return gone

    async def lost(self) -> set[str]:
        """The layers on the disk that are of no use to anybody."""
        found = await asyncio.to_thread(os.listdir, self._data_dir.layers)
        return {f"layers/{name}" for name in found} - self.used()

    def is_held(self, names: Iterable[str]) -> bool:
        """Whether somebody is at work with one of these layers."""
        roots = {_root(name) for name in names}
        return any(self._held[root] > 0 or root in self._reserved for root in roots)

    def used_by_others_than_steps(self) -> set[str]:
        """The layers that would stay if no build step were remembered."""
        rows = (*self._store.sandboxes, *self._store.builds, *self._store.images)
        return {name for row in rows for name in row.layers}

    def used(self, *, but_held: bool = False) -> set[str]:
        """The layers that a row names, and those that somebody is at work with."""
        used = set() if but_held else {name for name, count in self._held.items() if count > 0}
        used |= self._reserved
        for stack in stacks_of(self._store):
            used.update(map(_root, stack))
        used.update(_root(row.key) for row in self._store.merges)
        return used

    def are_named(self, names: Iterable[str]) -> bool:
        """Whether rows name all of these layers."""
        return self.used(but_held=True).issuperset(map(_root, names))


def _root(name: str) -> str:
    """The directory below ``layers`` that a layer is in: itself, or the subvolume around it."""
    return "/".join(name.split("/")[:2])


def sync(directory: Path) -> None:
    """Bring the file system of a directory to the disk; blocking."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
