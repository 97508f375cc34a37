"""Starts sandboxes ahead of time, so that a create can take one at once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.placement import Placed, Placement, Plan
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.access import new_sandbox_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.engine.context import PreparedHook
    from sbx_jupyter.isolation.fence_spec import Limits

_log = logging.getLogger(__name__)

_REFILL_DELAY: Final = 0.02
"""Seconds. Refilling at once would slow down the first command in the sandbox just taken."""

_RETRY_DELAY: Final = 5.0


@dataclass(slots=True)
class ReadySandbox:
    """A sandbox in the pool."""

    sandbox_id: str
    placed: Placed


class Pool:
    """Keeps ``size`` sandboxes of the stock base with the default limits ready."""

    def __init__(
        self,
        placement: Placement,
        limits: Limits,
        size: int,
        prepared: Sequence[PreparedHook] = (),
    ) -> None:
        """``prepared`` are called for each sandbox of the pool."""
        self._placement = placement
        self._prepared = prepared
        self._limits = limits
        self._size = size
        self._ready: deque[ReadySandbox] = deque()
        self._wanted = asyncio.Event()
        self._filled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._removals = BackgroundTasks()

    def __len__(self) -> int:
        return len(self._ready)

    def start(self) -> None:
        if self._size > 0:
            self._wanted.set()
            self._task = asyncio.create_task(self._refill_forever(), name="sbx-pool")

    async def wait_filled(self) -> None:
        """Wait until the pool is full."""
        if self._task is not None:
            await self._filled.wait()

    async def stop(self) -> None:
        """End the sandboxes that were not given out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        while self._ready:
            ready = self._ready.popleft()
            await self._placement.discard(ready.sandbox_id, ready.placed)
        await self._removals.drain()

    def take(
        self, plan_limits: Limits, base: str, layers: tuple[object, ...]
    ) -> ReadySandbox | None:
        """Take a ready sandbox; ``None`` if none fits these limits, base and layers."""
        if plan_limits != self._limits or base != "host" or layers:
            return None
        while self._ready:
            ready = self._ready.popleft()
            self._filled.clear()
            self._wanted.set()
            sandbox = ready.placed.sandbox
            if sandbox is not None and not sandbox.closed.is_set():
                return ready
            work = self._placement.discard(ready.sandbox_id, ready.placed)
            self._removals.spawn(work, "sbx-pool-removal")
        return None

    async def _refill_forever(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await asyncio.sleep(_REFILL_DELAY)
            if self._wanted.is_set():
                continue  # another one was taken meanwhile: let creates go first
            await self._refill()

    async def _refill(self) -> None:
        while len(self._ready) < self._size:
            plan = Plan(sandbox_id=new_sandbox_id(), limits=self._limits)
            try:
                placed = await self._make(plan)
            except (SbxError, OSError) as error:
                _log.warning("the pool of ready sandboxes cannot be filled: %s", error)
                await asyncio.sleep(_RETRY_DELAY)
                continue
            reached("pool.made")
            self._ready.append(ReadySandbox(plan.sandbox_id, placed))
            if self._wanted.is_set():
                await asyncio.sleep(_REFILL_DELAY)
        self._filled.set()

    async def _make(self, plan: Plan) -> Placed:
        """Start a sandbox and do what can be done before a client asks for it."""
        placed = await self._placement.place(plan)
        try:
            if placed.sandbox is not None:
                for hook in self._prepared:
                    await hook(placed.sandbox)
        except BaseException:
            await self._placement.discard(plan.sandbox_id, placed)
            raise
        return placed
