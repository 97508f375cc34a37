"""Removes cached data that nothing uses now: steps, images, uploads and unused layers."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.state.quarantine import RETENTION
from sbx_jupyter.engine.state.rows import ImageRow, Row, StepRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.storage import quarantined
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.disk import PruneAnswer, Pruned, PruneRequest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence

_log = logging.getLogger(__name__)

_PULLED: Final = "pulled "
_FRESH_SECONDS: Final = 3600.0
"""Files that were used this recently stay: a build may be about to use them."""

_BLOCK: Final = 512


class Pruner:
    """Finds and removes unused cached data."""

    def __init__(self, context: Context, fence: AnyFence) -> None:
        self._context = context
        self._fence = fence
        self._store = context.store
        self._folder = context.data_dir.path

    async def run(self, request: PruneRequest) -> PruneAnswer:
        """Remove the requested kinds, or only report them on a dry run; raises ``SbxError``.

        Layers of templates, sandboxes and running builds stay, and so do imported images, which
        no registry could provide again. Goes on when the caller is cancelled.
        """
        return await self._context.tasks.complete(self._run(request), "sbx-prune")

    async def _run(self, request: PruneRequest) -> PruneAnswer:
        pruned: list[Pruned] = []
        steps = self._idle_steps() if "steps" in request.kinds else []
        images = self._idle_images() if "images" in request.kinds else []
        rows = (*steps, *images)
        if "steps" in request.kinds:
            freed = await self._freed(steps, images)
            pruned.append(Pruned(kind="steps", count=len(steps), freed_bytes=freed))
        if "images" in request.kinds:
            count, freed = await self._files("blobs", request)
            freed += await self._freed(images, steps if pruned else [], count_shared=False)
            total = count + len(images)
            pruned.append(Pruned(kind="images", count=total, freed_bytes=freed))
        if "uploads" in request.kinds:
            count, freed = await self._files("uploads", request)
            pruned.append(Pruned(kind="uploads", count=count, freed_bytes=freed))
        if "layers" in request.kinds:
            pruned.append(await self._unused_layers(request))
        if "quarantine" in request.kinds:
            pruned.append(await self._quarantine(request))
        if rows and not request.dry_run:
            await self._forget(steps, images)
        freed_bytes = sum(each.freed_bytes for each in pruned)
        return PruneAnswer(dry_run=request.dry_run, freed_bytes=freed_bytes, pruned=pruned)

    async def _forget(self, steps: list[StepRow], images: list[ImageRow]) -> None:
        batch = Batch()
        for step in steps:
            batch.remove(StepRow, step.key)
        for image in images:
            batch.remove(ImageRow, image.key)
        await self._context.commit(batch)
        reached("prune.forgotten")
        await self._context.layers.collect(_names([*steps, *images]))

    def _idle_steps(self) -> list[StepRow]:
        layers = self._context.layers
        return [row for row in self._store.steps if not layers.is_in_use((*row.layers, *row.below))]

    def _idle_images(self) -> list[ImageRow]:
        return [
            row
            for row in self._store.images
            if all(name.startswith(_PULLED) for name in row.names)
            and not self._context.layers.is_in_use(row.layers)
        ]

    async def _freed(
        self,
        rows: list[StepRow] | list[ImageRow],
        also: Iterable[Row],
        *,
        count_shared: bool = True,
    ) -> int:
        """The bytes of the layers that only these rows name, or these and ``also``."""
        layers = self._context.layers
        gone = {id(row) for row in (*rows, *also)}
        kept: set[str] = set()
        for row in (*self._store.sandboxes, *self._store.builds):
            kept.update(row.layers)
        for row in (*self._store.steps, *self._store.images):
            if id(row) not in gone:
                kept |= _names([row])
        names = _names(rows) - kept
        if not count_shared:
            names -= _names(also)
        sizes = await layers.sizes(names)
        return sum(size.bytes for size in sizes.values())

    async def _unused_layers(self, request: PruneRequest) -> Pruned:
        """Remove layers that no row names, after a failed removal or a restored store."""
        layers = self._context.layers
        names = await layers.unused()
        sizes = await layers.sizes(names)
        if not request.dry_run:
            await layers.collect(names)
        freed = sum(size.bytes for size in sizes.values())
        return Pruned(kind="layers", count=len(names), freed_bytes=freed)

    async def _quarantine(self, request: PruneRequest) -> Pruned:
        entries = await asyncio.to_thread(self._context.quarantine.entries)
        trees = self._fence.tree_operations
        freed = sum(await quarantined.sizes(entries, trees))
        if not request.dry_run:
            for entry in entries:
                await quarantined.remove(entry, trees)
        return Pruned(kind="quarantine", count=len(entries), freed_bytes=freed)

    async def remove_old(self) -> None:
        """Remove what has been in quarantine for longer than ``RETENTION``; failures are logged."""
        for entry in await asyncio.to_thread(self._context.quarantine.entries):
            if entry.since + RETENTION > now():
                continue
            try:
                await quarantined.remove(entry, self._fence.tree_operations)
            except (SbxError, OSError):
                _log.exception("%s could not be removed", entry.folder)

    async def _files(self, folder: str, request: PruneRequest) -> tuple[int, int]:
        return await asyncio.to_thread(_prune_files, self._folder / folder, request.dry_run)


def _names(rows: Iterable[Row]) -> set[str]:
    found: set[str] = set()
    for row in rows:
        if isinstance(row, StepRow):
            found.update(row.layers, row.below)
        elif isinstance(row, ImageRow):
            found.update(row.layers)
    return found


def _prune_files(folder: Path, dry_run: bool) -> tuple[int, int]:
    """Remove the files that were not used recently; returns their number and bytes. Blocking."""
    count = freed = 0
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        if status.st_mtime > time.time() - _FRESH_SECONDS:
            continue
        if not dry_run:
            path.unlink(missing_ok=True)
        count += 1
        freed += status.st_blocks * _BLOCK
    return count, freed
