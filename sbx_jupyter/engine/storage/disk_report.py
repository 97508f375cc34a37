"""Reports how much of the disk each template, sandbox, volume and cache uses."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from sbx_jupyter.engine.state.rows import now
from sbx_jupyter.engine.storage import quarantined
from sbx_jupyter.engine.storage.layer_stacks import with_merges
from sbx_jupyter.engine.storage.layers import Size
from sbx_jupyter.engine.templates.references import full_name
from sbx_jupyter.protocol.disk import (
    BuildUse,
    CacheUse,
    DiskUse,
    QuarantineUse,
    SandboxUse,
    TemplateUse,
    VolumeUse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.state.rows import TemplateRow
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence

MAX_AGE: Final = 30.0
"""Seconds for which a report is reused, unless a newer one is asked for."""

_STEPS: Final = "the step cache"
_IMAGES: Final = "the images"
_BLOCK: Final = 512
_MEASURED_APART: Final = frozenset(
    {
        "layers",
        "sandboxes",
        "volumes",
        "volumes-removed",
        "stock",
        "blobs",
        "uploads",
        "run",
        "quarantine",
        "quarantine-apart",
    }
)


class _StackUse(NamedTuple):
    """Bytes of a stack of layers: those that no other stack has, and those that others share."""

    own: int
    shared: int
    layers: int


class _OtherUse(NamedTuple):
    """Bytes of everything but layers; pairs are bytes and the number of files."""

    written: dict[str, int]
    volumes: dict[str, int]
    stock: int
    blobs: tuple[int, int]
    uploads: tuple[int, int]
    quarantine: list[QuarantineUse]
    other: int

    def total_bytes(self) -> int:
        """The sum of all uses."""
        trees = sum(self.written.values()) + sum(self.volumes.values())
        set_aside = sum(each.own_bytes for each in self.quarantine)
        return trees + self.stock + self.blobs[0] + self.uploads[0] + set_aside + self.other


class DiskReporter:
    """Measures the disk use of the engine's data, and caches the report."""

    def __init__(self, context: Context, fence: AnyFence) -> None:
        self._context = context
        self._store = context.store
        self._fence = fence
        self._folder = context.data_dir.path
        self._measuring: asyncio.Task[DiskUse] | None = None
        self._known: DiskUse | None = None
        self._known_at = 0.0

    async def report(self, max_age: float = MAX_AGE) -> DiskUse:
        """Report the disk use, measured at most ``max_age`` seconds ago; raises ``SbxError``.

        Calls that come during a measurement share its result. Blocks that several files share
        count for each of them.
        """
        age = time.monotonic() - self._known_at
        if self._known is not None and age <= max_age:
            return replace(self._known, age_seconds=round(age, 3))
        if self._measuring is None or self._measuring.done():
            self._measuring = self._context.tasks.spawn(self._remember(), "sbx-disk-use")
        return await asyncio.shield(self._measuring)

    async def _remember(self) -> DiskUse:
        found = await self._measure()
        self._known, self._known_at = found, time.monotonic()
        return found

    async def _measure(self) -> DiskUse:
        at = now()
        known = await self._context.layers.sizes(set[str]().union(*self._stacks().values()))
        other_use = await self._measure_others()
        status = await asyncio.to_thread(os.statvfs, self._folder)
        # Nothing is awaited from here on. Layers that came during the measurement count as empty.
        stacks = self._stacks()
        names = set[str]().union(*stacks.values())
        sizes = {name: known.get(name, Size(0, 0)) for name in names}
        shares = _shares(stacks, sizes)
        layers = sum(sizes[name].bytes for name in names)
        return DiskUse(
            measured_at=at,
            age_seconds=0.0,
            total_bytes=layers + other_use.total_bytes(),
            disk_bytes=status.f_blocks * status.f_frsize,
            free_bytes=status.f_bavail * status.f_frsize,
            templates=self._templates(stacks, sizes, shares),
            sandboxes=self._sandboxes(shares, other_use.written),
            volumes=self._volumes(other_use.volumes),
            step_cache=_cache(shares[_STEPS], len(self._store.steps)),
            images=_cache(shares[_IMAGES], len(self._store.images)),
            blobs=CacheUse(own_bytes=other_use.blobs[0], shared_bytes=0, count=other_use.blobs[1]),
            uploads=CacheUse(
                own_bytes=other_use.uploads[0], shared_bytes=0, count=other_use.uploads[1]
            ),
            quarantine=other_use.quarantine,
            stock_bytes=other_use.stock,
            other_bytes=other_use.other,
        )

    def _volumes(self, measured: Mapping[str, int]) -> list[VolumeUse]:
        return [
            VolumeUse(
                volume_id=row.volume_id,
                name=row.name,
                own_bytes=measured.get(row.volume_id, 0),
            )
            for row in self._store.volumes
        ]

    def _stacks(self) -> dict[str, set[str]]:
        """The layers of each template, sandbox and cache, with the merged layers that they use."""
        merges = list(self._store.merges)
        found: dict[str, set[str]] = {_STEPS: set(), _IMAGES: set()}
        for template in self._store.templates:
            found[template.template_id] = set()
        for build in self._store.builds:
            names = with_merges(build.layers, merges)
            found.setdefault(build.template_id, set()).update(names)
        for row in self._store.sandboxes:
            found[row.sandbox_id] = with_merges(row.layers, merges)
        for step in self._store.steps:
            found[_STEPS] |= with_merges((*step.layers, *step.below), merges)
        for image in self._store.images:
            found[_IMAGES].update(image.layers)
        return found

    async def _measure_others(self) -> _OtherUse:
        sandboxes = [row.sandbox_id for row in self._store.sandboxes]
        volumes = [row.volume_id for row in self._store.volumes]
        data_dir = self._context.data_dir
        trees = [data_dir.writable(sandbox_id) / "upper" for sandbox_id in sandboxes]
        trees += [self._folder / "volumes" / volume_id for volume_id in volumes]
        trees.append(self._folder / "stock")
        entries = await asyncio.to_thread(self._context.quarantine.entries)
        measured = await self._fence.tree_operations.measure_all(trees)
        found = [0 if size is None else size[0] for size in measured]
        set_aside = await quarantined.sizes(entries, self._fence.tree_operations)
        blobs, uploads, other = await asyncio.to_thread(self._walk)
        return _OtherUse(
            written=dict(zip(sandboxes, found, strict=False)),
            volumes=dict(zip(volumes, found[len(sandboxes) :], strict=False)),
            stock=found[len(sandboxes) + len(volumes)],
            blobs=blobs,
            uploads=uploads,
            quarantine=[entry.to_use(size) for entry, size in zip(entries, set_aside, strict=True)],
            other=other,
        )

    def _walk(self) -> tuple[tuple[int, int], tuple[int, int], int]:
        """Measure what belongs to the engine itself: blobs, uploads and the rest. Blocking."""
        other = 0
        for entry in os.scandir(self._folder):
            if entry.name not in _MEASURED_APART:
                other += _size_of(Path(entry.path))[0]
        return _size_of(self._folder / "blobs"), _size_of(self._folder / "uploads"), other

    def _templates(
        self, stacks: dict[str, set[str]], sizes: Mapping[str, Size], shares: dict[str, _StackUse]
    ) -> list[TemplateUse]:
        merges = list(self._store.merges)
        templates = {row.template_id: row for row in self._store.templates}
        others = {name: stack for name, stack in stacks.items() if name not in templates}
        by_build = {
            build.build_id: with_merges(build.layers, merges) for build in self._store.builds
        }
        of_build = _shares({**others, **by_build}, sizes)
        builds: dict[str, list[BuildUse]] = {}
        for build in self._store.builds:
            template = templates.get(build.template_id)
            share = of_build[build.build_id]
            use = BuildUse(
                build_id=build.build_id,
                tags=[] if template is None else _tags(template, build.build_id),
                own_bytes=share.own,
                shared_bytes=share.shared,
                layers=len(build.layers),
            )
            builds.setdefault(build.template_id, []).append(use)
        return [
            TemplateUse(
                template_id=row.template_id,
                names=[full_name(alias) for alias in row.aliases],
                kind="stock" if row.is_stock else "snapshot" if row.is_snapshot else "template",
                own_bytes=shares[row.template_id].own,
                shared_bytes=shares[row.template_id].shared,
                layers=shares[row.template_id].layers,
                builds=builds.get(row.template_id, []),
            )
            for row in templates.values()
        ]

    def _sandboxes(self, shares: dict[str, _StackUse], written: dict[str, int]) -> list[SandboxUse]:
        found: list[SandboxUse] = []
        for row in self._store.sandboxes:
            share = shares.get(row.sandbox_id, _StackUse(0, 0, 0))
            by_itself = written.get(row.sandbox_id, 0)
            use = SandboxUse(
                sandbox_id=row.sandbox_id,
                state=row.state.reported,
                written_bytes=by_itself,
                own_bytes=share.own + by_itself,
                shared_bytes=share.shared,
                layers=len(row.layers),
            )
            found.append(use)
        return found


def _shares(stacks: Mapping[str, set[str]], sizes: Mapping[str, Size]) -> dict[str, _StackUse]:
    """How much of each stack is its own, and how much is shared with others."""
    users = Counter(name for stack in stacks.values() for name in stack)
    found: dict[str, _StackUse] = {}
    for key, stack in stacks.items():
        own = sum(sizes[name].bytes for name in stack if users[name] == 1)
        total = sum(sizes[name].bytes for name in stack)
        found[key] = _StackUse(own, total - own, len(stack))
    return found


def _cache(share: _StackUse, count: int) -> CacheUse:
    return CacheUse(own_bytes=share.own, shared_bytes=share.shared, count=count)


def _tags(template: TemplateRow, build_id: str) -> list[str]:
    return [tag for tag, where in template.tags.items() if where.build_id == build_id]


def _size_of(path: Path) -> tuple[int, int]:
    """Bytes on the disk and number of the files at a path; blocking."""
    size = count = 0
    for status in _files(path):
        size += status.st_blocks * _BLOCK
        count += 1
    return size, count


def _files(path: Path) -> Iterable[os.stat_result]:
    if not path.is_dir():
        if path.exists():
            yield path.stat()
        return
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                yield os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
