"""Layers: read-only directories that sandboxes start from.

Each layer is named by the rows that use it and removed when no row names it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from sbx_jupyter.engine.state import leftovers
from sbx_jupyter.engine.state.datadir import translate
from sbx_jupyter.engine.state.rows import MergeRow
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.storage.layer_stacks import Stack, shorten, stacks_of, used_merges
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.isolation.kernel import subvolumes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable

    from sbx_jupyter.engine.state.datadir import DataDir
    from sbx_jupyter.engine.state.manifests import Manifests
    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.engine.unfinished_removals import UnfinishedRemovals
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence
    from sbx_jupyter.isolation.trees.copied_directories import CopiedDirectories
    from sbx_jupyter.isolation.zygote.progress import Progress

_log = logging.getLogger(__name__)
_MEASURED_AT_ONCE: Final = 50


class Size(NamedTuple):
    """The space that a layer takes on the disk."""

    bytes: int
    inodes: int


class Layers:
    """Makes layers and removes those that no row names any more."""

    def __init__(
        self,
        data_dir: DataDir,
        store: Store,
        fence: AnyFence,
        manifests: Manifests,
        removals: UnfinishedRemovals,
        *,
        are_whole: bool = False,
    ) -> None:
        """``are_whole``: a layer is all that a sandbox has, and not what it changed."""
        self.are_whole = are_whole
        self._removals = removals
        self._manifests = manifests
        self._data_dir = data_dir
        self._store = store
        self._fence = fence
        self._reserved: set[str] = set()
        self._held: Counter[str] = Counter()
        self._asked_for: set[str] = set()
        """Layers that would have been removed if nobody had held them."""
        self._may_appear: set[str] = set()
        """Layers that a process may still make although nobody waits for it any more."""
        self._sizes: dict[str, Size] = {}

    @contextlib.asynccontextmanager
    async def reserve(self) -> AsyncGenerator[str]:
        """Reserve the name of a new layer, which is not collected before the context ends.

        Commit the row that names the layer inside the context. A layer that no row names at its
        end is removed.
        """
        name = f"layers/{uuid.uuid4()}"
        self._reserved.add(name)
        try:
            yield name
        except UnavailableError:
            # Who makes it was killed, and may still make it: what ends that is its successor.
            self._may_appear.add(name)
            raise
        finally:
            self._reserved.discard(name)
            await self.collect((name,))

    @contextlib.contextmanager
    def hold(self, names: tuple[str, ...]) -> Generator[None]:
        """Keep existing layers from collection until the context ends."""
        roots = [_root(name) for name in names]
        self._held.update(roots)
        try:
            yield
        finally:
            self._held.subtract(roots)
            for root in self._asked_for.intersection(roots):
                if self._held[root] <= 0:
                    self._asked_for.discard(root)
                    self._removals.add(root, functools.partial(self._remove_unused, root))

    async def measure(self, sandbox_id: str) -> int:
        """The bytes that a sandbox has written; raises ``SbxError``."""
        return (await self._fence.tree_operations.measure(self._data_dir.writable(sandbox_id)))[0]

    async def sizes(self, names: Iterable[str]) -> dict[str, Size]:
        """The size of each layer; layers never change, so each is measured once. ``SbxError``."""
        unknown = [name for name in dict.fromkeys(names) if name not in self._sizes]
        for start in range(0, len(unknown), _MEASURED_AT_ONCE):
            part = unknown[start : start + _MEASURED_AT_ONCE]
            found = await self._fence.tree_operations.measure_all(
                [self._data_dir.path / name for name in part]
            )
            for name, size in zip(part, found, strict=True):
                if size is not None:
                    self._sizes[name] = Size(*size)
        return {name: self._sizes.get(name, Size(0, 0)) for name in names}

    def put_on(self, layer: str, below: Stack) -> Stack:
        """The stack with a new layer of a sandbox that has these layers.

        Without overlays a layer is all that the sandbox has, so what it removed is gone.
        """
        return (layer,) if self.are_whole else (layer, *self.shorten(below))

    def shorten(self, stack: Stack) -> Stack:
        """The same stack with merged layers in place of those that they were made of."""
        return shorten(stack, self._store.merges)

    async def seal(self, sandbox_id: str, name: str) -> str:
        """Turn the writable layer of a sandbox whose processes ended into a layer; does not sync.

        A directory is renamed, so its size does not matter. Returns the name of the layer. Raises
        ``NoSpaceError`` and ``SbxError``.
        """
        source = self._data_dir.name_of_writable(sandbox_id)
        try:
            return await asyncio.to_thread(self._fence.stored.seal, source, name)
        except PermissionError:
            # The sandbox took our permissions away, but the fence's helper acts as the owner and
            # can still copy.
            await self.copy(sandbox_id, name)
        return name

    async def has_subvolume(self, sandbox_id: str) -> bool:
        """Whether the writable layer is a subvolume, so that ``take_subvolume`` works."""
        return await asyncio.to_thread(subvolumes.is_subvolume, self._data_dir.writable(sandbox_id))

    async def take_subvolume(self, sandbox_id: str, name: str) -> str:
        """Take a snapshot of the subvolume of a frozen sandbox; returns the name of the layer.

        Instant, whatever its size, and synced on return. Raises ``NoSpaceError`` and ``SbxError``.
        """
        source = self._data_dir.name_of_writable(sandbox_id)
        try:
            await asyncio.to_thread(self._fence.stored.take_snapshot, source, name)
        except OSError as error:
            raise translate(error, "taking a snapshot of the files of the sandbox") from error
        return f"{name}/upper"

    async def sync_writable(self, sandbox_id: str) -> None:
        """Sync what a sandbox has written to the disk."""
        await self.sync(self._data_dir.name_of_writable(sandbox_id))

    async def copy(
        self,
        sandbox_id: str,
        name: str,
        *,
        since_ns: int = 0,
        still: bool = True,
        copied: CopiedDirectories | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Copy the writable layer of a sandbox; does not sync.

        ``still`` means that the sandbox is frozen. The copy of a running sandbox is made exact by
        a second copy, while it is frozen, of what changed since ``since_ns``, the time when the
        first copy began; both get the same ``copied``.
        Raises ``NoSpaceError`` when the disk is full, ``CanceledError``.
        """
        source = self._data_dir.writable(sandbox_id) / "upper"
        target = self._data_dir.path / name
        try:
            await self._fence.tree_operations.copy(
                source, target, since_ns=since_ns, still=still, copied=copied, progress=progress
            )
        except SbxError as error:
            raise translate(error, "copying the files of the sandbox") from error

    async def sync(self, name: str = "layers") -> None:
        """Sync a layer, or by default all of them, to the disk."""
        await asyncio.to_thread(self._fence.stored.sync, name)

    async def merge(self, names: tuple[str, ...], name: str) -> None:
        """Merge several layers, topmost first, into one; synced on return.

        Raises ``NoSpaceError`` when the disk is full.
        """
        target = self._data_dir.path / name
        with self.hold(names):
            try:
                sources = tuple(self._data_dir.path / layer for layer in names)
                await self._fence.tree_operations.merge(sources, target)
            except SbxError as error:
                raise translate(error, "putting layers together") from error
        await self.sync(name)

    async def collect(self, candidates: Iterable[str] | None = None) -> int:
        """Remove the unused layers among the candidates, or among all layers.

        Returns the number of layers removed. A removal that fails is taken up again later.
        """
        if candidates is None:
            folder = self._data_dir.layers
            found = await asyncio.to_thread(leftovers.directories, folder, leftovers.UUID)
            candidates = [f"layers/{name}" for name in found]
        candidates = [*candidates, *await self._forget_merges()]
        used = self.used(but_held=True)
        removed = 0
        for name in dict.fromkeys(map(_root, candidates)):
            if name in used or not self._is_there(name):
                continue
            if self._held[name] > 0:
                self._asked_for.add(name)
                continue
            try:
                await self._remove(name)
            except (SbxError, OSError):
                _log.exception("the layer %s could not be removed", name)
                self._removals.add(name, functools.partial(self._remove_unused, name))
                continue
            removed += 1
        return removed

    async def _remove(self, name: str) -> None:
        reached("layers.unused")
        await asyncio.to_thread(self._manifests.forget_layer, name)
        await self._fence.tree_operations.remove(self._data_dir.path / name)
        self._may_appear.discard(name)
        for known in (name, f"{name}/upper"):
            self._sizes.pop(known, None)
        reached("layers.removed")

    async def _remove_unused(self, name: str) -> None:
        if name in self.used(but_held=True) or not self._is_there(name):
            return
        if self._held[name] > 0:
            self._asked_for.add(name)
        else:
            await self._remove(name)

    def _is_there(self, name: str) -> bool:
        return name in self._may_appear or (self._data_dir.path / name).exists()

    async def _forget_merges(self) -> list[str]:
        """Remove the rows of merged layers that replace nothing any more; returns their names."""
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

    async def unused(self) -> set[str]:
        """The layers on the disk that nothing uses."""
        return {*await asyncio.to_thread(self._data_dir.layer_directories)} - self.used()

    def is_in_use(self, names: Iterable[str]) -> bool:
        """Whether one of these layers is held or reserved."""
        roots = {_root(name) for name in names}
        return any(self._held[root] > 0 or root in self._reserved for root in roots)

    def used_by_others_than_steps(self) -> set[str]:
        """The layers that would stay if the step cache were empty."""
        rows = (*self._store.sandboxes, *self._store.builds, *self._store.images)
        return {name for row in rows for name in row.layers}

    def used(self, *, but_held: bool = False) -> set[str]:
        """The layers that are named by a row, held or reserved.

        With ``but_held``, layers that are only held are left out.
        """
        used = set(self._reserved)
        if not but_held:
            used.update(name for name, count in self._held.items() if count > 0)
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
