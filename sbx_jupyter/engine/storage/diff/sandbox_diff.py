"""Chooses the layers to compare for a sandbox, and compares them in a thread."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.state.rows import layer_paths
from sbx_jupyter.engine.storage.diff.archive import write_archive
from sbx_jupyter.engine.storage.diff.comparison import MAX_CHANGES, Comparison
from sbx_jupyter.engine.storage.diff.merged_tree import Layer
from sbx_jupyter.errors import FailedPreconditionError, InvalidArgumentError
from sbx_jupyter.protocol.diff import Diff

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.state.rows import BuildRow, SandboxRow
    from sbx_jupyter.engine.templates.catalog import Catalog
    from sbx_jupyter.isolation.fence import Fence

_STOCK_BASE: Final = "host"


class Diffs:
    """Compares sandboxes with what they started from, or with a snapshot."""

    def __init__(self, context: Context, catalog: Catalog, fence: Fence) -> None:
        self._context = context
        self._catalog = catalog
        self._fence = fence

    async def diff(self, sandbox_id: str, since: str | None) -> Diff:
        """The first 100,000 changes of a sandbox against its template, or against ``since``.

        Raises ``NotFoundError`` for an unknown sandbox or snapshot and ``InvalidArgumentError``
        for a snapshot with another base.
        """
        comparison = self._comparison(sandbox_id, since)
        return await asyncio.to_thread(_collect, comparison)

    def archive(self, sandbox_id: str, since: str | None) -> int:
        """Write the changed files as a tar to a pipe; returns its reading end.

        The caller closes it; closing it early ends the work. Raises as ``diff`` does.
        """
        comparison = self._comparison(sandbox_id, since)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        # Its own thread: it writes as slowly as the client reads, which would block a pool.
        threading.Thread(
            target=_write, args=(comparison, writer), name="sbx-diff-archive", daemon=True
        ).start()
        return reader

    def _comparison(self, sandbox_id: str, since: str | None) -> Comparison:
        context = self._context
        row = context.slots.find(sandbox_id).row
        base = self._base(row, since)
        if base.base != row.base:
            raise InvalidArgumentError(f"'{since}' stands on another base than the sandbox")
        upper = context.data_dir.writable(sandbox_id) / "upper"
        # Layers merged meanwhile have the same content under another name.
        stacks = (context.layers.shorten(row.layers), context.layers.shorten(base.layers))
        ours, theirs = (list(layer_paths(context.data_dir.path, stack)) for stack in stacks)
        ours.insert(0, upper)
        shared = _shared_tail(ours, theirs)
        below = [Layer(path) for path in ours[len(ours) - shared :]]
        return Comparison(
            ours=tuple(Layer(path) for path in ours[: len(ours) - shared]),
            theirs=tuple(Layer(path) for path in theirs[: len(theirs) - shared]),
            common=(*below, *self._stock(row.base)),
        )

    def _base(self, row: SandboxRow, since: str | None) -> BuildRow:
        if since is not None:
            return self._catalog.resolve(since)[1]
        build = self._context.store.builds.get(row.build_id)
        if build is None:
            raise FailedPreconditionError("the template that the sandbox started from is gone")
        return build

    def _stock(self, base: str) -> Iterator[Layer]:
        if base != _STOCK_BASE or self._fence.stock is None:
            return
        yield Layer(self._fence.stock)
        for tree in self._fence.trees:
            yield Layer(Path(tree.path), tree.path.strip("/"))


def _shared_tail(ours: list[Path], theirs: list[Path]) -> int:
    pairs = zip(reversed(ours), reversed(theirs), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _collect(comparison: Comparison) -> Diff:
    changes = list(itertools.islice(comparison.changes(), MAX_CHANGES + 1))
    return Diff(changes=changes[:MAX_CHANGES], truncated=len(changes) > MAX_CHANGES)


def _write(comparison: Comparison, writer: int) -> None:
    with os.fdopen(writer, "wb") as target:
        try:
            write_archive(target, (*comparison.ours, *comparison.common), comparison.changes())
        except BrokenPipeError:
            return  # the reader left
