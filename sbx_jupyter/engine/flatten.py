"""Keeps stacks of layers short: many become one that shows the same.

A snapshot of a sandbox made from a snapshot adds a layer, and every layer makes looking up a path
dearer. Sandboxes that run go on with the layers that they have; what starts later gets the one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.checkpoints import reached
from sbx_jupyter.engine.store import Batch
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.records import BuildRow

_log = logging.getLogger(__name__)

TOO_MANY: Final = 20
"""Layers from which on a stack is flattened."""


class Flattener:
    """Merges the layers of builds in the background, one build after the other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._one = asyncio.Lock()

    def consider(self, build_id: str) -> None:
        """Flatten a build soon if it has too many layers."""
        build = self._context.store.builds.get(build_id)
        if build is not None and len(build.layers) >= TOO_MANY:
            self._context.tasks.spawn(self._flatten(build.layers), f"sbx-flatten-{build_id}")

    def consider_all(self) -> None:
        """Take up what an engine before did not finish."""
        for build in self._context.store.builds:
            self.consider(build.build_id)

    async def _flatten(self, stack: tuple[str, ...]) -> None:
        try:
            async with self._one:
                await self._merge(stack)
        except (SbxError, OSError) as error:
            # The builds work as they are; the next start tries again.
            _log.warning("%d layers could not be made one: %s", len(stack), error)

    async def _merge(self, stack: tuple[str, ...]) -> None:
        if not self._builds_on(stack):
            return
        layers = self._context.layers
        async with layers.reserve() as name:
            await layers.merge(stack, name)
            reached("flatten.copied")
            batch = Batch()
            for build in self._builds_on(stack):
                batch.put(replace(build, layers=(name,)))
            await self._context.commit(batch)
            reached("flatten.stored")
        await layers.collect(stack)
        reached("flatten.cleaned")

    def _builds_on(self, stack: tuple[str, ...]) -> list[BuildRow]:
        return [build for build in self._context.store.builds if build.layers == stack]
