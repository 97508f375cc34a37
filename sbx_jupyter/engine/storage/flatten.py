"""Keeps stacks of layers short by merging several layers into one with the same content.

Each snapshot of a sandbox made from a snapshot adds a layer, and so does each fork of a fork. Every
layer makes path lookups slower, and the kernel limits their number. Running sandboxes keep their
layers; sandboxes that start later get the merged one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sbx_jupyter.engine.state.rows import BuildRow, MergeRow
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.storage.layer_stacks import TOO_MANY, choose_run, replace_run
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.storage.layer_stacks import Stack

_log = logging.getLogger(__name__)


class Flattener:
    """Merges layers in the background, one stack after the other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._one = asyncio.Lock()

    def consider(self, stack: Stack) -> None:
        """Merge layers of a stack in the background if it has too many."""
        if len(self._context.layers.shorten(stack)) >= TOO_MANY:
            self._context.tasks.spawn(self._try_flatten(stack), "sbx-flatten")

    def consider_all(self) -> None:
        """Continue the merges that an earlier engine did not finish."""
        rows = (*self._context.store.builds, *self._context.store.sandboxes)
        for stack in {row.layers for row in rows}:
            self.consider(stack)

    async def flatten(self, stack: Stack) -> Stack:
        """Merge until the stack has fewer than ``TOO_MANY`` layers; returns the new stack.

        A stack that no row names any more stays as it is. Raises ``SbxError``, ``OSError``.
        """
        layers = self._context.layers
        async with self._one:
            while len(short := layers.shorten(stack)) >= TOO_MANY:
                with layers.hold(short):
                    if not layers.are_named(short):
                        break
                    run = await self._merge(short)
                await layers.collect(run)
                reached("flatten.cleaned")
            return short

    async def _try_flatten(self, stack: Stack) -> None:
        try:
            await self.flatten(stack)
        except (SbxError, OSError) as error:
            # The long stack still works; the next snapshot or start tries again.
            _log.warning("%d layers could not be made fewer: %s", len(stack), error)

    async def _merge(self, stack: Stack) -> Stack:
        """Merge some layers into one; returns the layers that it replaces."""
        layers = self._context.layers
        sizes = await layers.sizes(stack)
        run = choose_run(stack, [sizes[name].bytes for name in stack])
        async with layers.reserve() as name:
            reached("flatten.begun")
            await layers.merge(run, name)
            reached("flatten.copied")
            merge = MergeRow(key=name, layers=run)
            batch = Batch().put(merge)
            shortened: list[BuildRow] = []
            for build in self._context.store.builds:
                short = replace_run(build.layers, merge)
                if short != build.layers:
                    shortened.append(replace(build, layers=short))
            batch.puts.extend(shortened)
            await self._context.commit(batch)
            reached("flatten.stored")
            await self._forget_removed(shortened)
        return run

    async def _forget_removed(self, builds: list[BuildRow]) -> None:
        """Remove the builds whose template was removed while they were stored again."""
        batch = Batch()
        for build in builds:
            if build.template_id not in self._context.store.templates:
                batch.remove(BuildRow, build.build_id)
        if batch.removals:
            await self._context.commit(batch)
