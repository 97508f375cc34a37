"""Sandboxes that are ready for kernels, so that the next notebook need not wait for one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import SbxError
from sbx_jupyter.kernel.sandbox import KernelSandbox

if TYPE_CHECKING:
    from sbx_jupyter.kernel.sandbox import Place

_LOG: Final = logging.getLogger(__name__)
IDLE_TIME: Final = 1800.0
"""Seconds after the last start of a kernel until the ready sandboxes are ended."""

_DELAY: Final = 2.0
"""Seconds from a start until the next is made ready, so that the two do not compete."""

READY_NAME: Final = "ready for a kernel"
_READY_FOR: Final = "sbx-ready-for"
_METADATA: Final = {"name": READY_NAME, _READY_FOR: "kernel"}
"""The panel does not list what says what it is ready for; ``take`` gives it a name instead."""


class ReadySandboxes:
    """One sandbox ready for each place that was used; each serves one kernel and no other.

    A deployment counts them as any sandbox of this user. Where it has no room for one, there is
    none, and a kernel gets a new one. Use it on the portal's loop.
    """

    def __init__(self) -> None:
        self._ready: dict[Place, KernelSandbox] = {}
        self._filling: dict[Place, asyncio.Task[None]] = {}
        self._idle: dict[Place, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None

    async def take(self, place: Place, name: str) -> KernelSandbox:
        """Return a sandbox for a kernel, ready or new. Raises ``SbxError``."""
        ready = self._ready.pop(place, None)
        if ready is not None and not ready.zygote.is_lost:
            try:
                used: dict[str, str | None] = {"name": name, _READY_FOR: None}
                await ready.sandbox.platform.set_metadata(ready.sandbox.sandbox_id, used)
            except SbxError as error:
                _LOG.info("a sandbox that was ready has ended: %s", error)
            else:
                return ready
        if ready is not None:
            await ready.aclose()
        return await KernelSandbox.create(place, {"name": name})

    def refill(self, place: Place) -> None:
        """Make one ready soon, if there is none, and end it when it is not used for long."""
        loop = asyncio.get_running_loop()
        if self._keeper is None or self._keeper.done():
            self._keeper = loop.create_task(self._keep())
        if (timer := self._idle.pop(place, None)) is not None:
            timer.cancel()
        self._idle[place] = loop.call_later(IDLE_TIME, self._drop, place)
        if place not in self._ready and place not in self._filling:
            self._filling[place] = task = loop.create_task(self._fill(place))
            task.add_done_callback(lambda _: self._filling.pop(place, None))

    async def aclose(self) -> None:
        """End all that is ready."""
        if self._keeper is not None and self._keeper is not asyncio.current_task():
            self._keeper.cancel()
        for place in list(self._idle):
            self._drop(place)
        for task in list(self._filling.values()):
            task.cancel()
        await asyncio.gather(*self._filling.values(), *self._ending, return_exceptions=True)

    async def filled(self) -> int:
        """Wait until nothing is being made ready; return how many are."""
        while self._filling:
            await asyncio.wait(self._filling.values())
        return len(self._ready)

    async def _keep(self) -> None:
        """End the ready sandboxes when the loop ends with its process."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self.aclose()
            raise

    async def _fill(self, place: Place) -> None:
        await asyncio.sleep(_DELAY)
        try:
            made = await KernelSandbox.create(place, _METADATA, place.modules)
            try:
                await made.zygote.ready()
            except BaseException:
                await made.aclose()
                raise
        except (SbxError, TimeoutError) as error:
            _LOG.info("no sandbox is made ready for a kernel: %s", error)
            return
        self._ready[place] = made

    def _drop(self, place: Place) -> None:
        if (timer := self._idle.pop(place, None)) is not None:
            timer.cancel()
        if (ready := self._ready.pop(place, None)) is not None:
            task = asyncio.get_running_loop().create_task(_end(ready))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


async def _end(ready: KernelSandbox) -> None:
    with contextlib.suppress(SbxError):
        await ready.aclose()


READY: Final = ReadySandboxes()
"""The ready sandboxes of this process."""
