"""Starts code interpreters before anybody asks for them, in sandboxes that are made for that."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.templates.catalog import INTERPRETER_TEMPLATE_ID
from sbx_jupyter.errors import SbxError

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.sandboxes.slots import Slots
    from sbx_jupyter.engine.state.rows import SandboxRow

_log = logging.getLogger(__name__)

_DELAY: Final = 0.2
"""Seconds from the start of a sandbox, and between two looks whether any is being made."""
_PACE: Final = 1.0
"""Seconds between two starts: about what one takes of a processor."""
_PATIENCE: Final = 10.0
"""Seconds that starts wait while sandboxes are being made all the time."""
MAX_WAITING: Final = 256


class Warmer:
    """Warms the interpreters of one engine, one at a time and after what is more urgent.

    Nobody waits for it: a client that comes first starts the interpreter itself, or waits for the
    start that has begun.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._waiting: deque[Sandbox] = deque(maxlen=MAX_WAITING)
        self._working: asyncio.Task[None] | None = None

    async def started(self, row: SandboxRow, sandbox: Sandbox) -> None:
        """Note a sandbox that has new processes, if its template is that of the interpreter."""
        is_build = self._slots.get(row.sandbox_id) is None
        if is_build or row.template_id != INTERPRETER_TEMPLATE_ID:
            return
        self._waiting.append(sandbox)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(), name="sbx-warming")

    async def aclose(self) -> None:
        """Leave the rest cold."""
        self._waiting.clear()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    async def _work(self) -> None:
        while self._waiting:
            await self._wait_for_quiet()
            if not self._waiting:
                return
            sandbox = self._waiting.popleft()
            if sandbox.closed.is_set():
                continue
            try:
                await sandbox.start_interpreter()
            except SbxError as error:
                _log.info("the interpreter of %s is not warmed: %s", sandbox.sandbox_id, error)
            await asyncio.sleep(_PACE)

    async def _wait_for_quiet(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + _PATIENCE
        while True:
            await asyncio.sleep(_DELAY)
            is_busy = any(slot.state is State.CREATING for slot in self._slots)
            if not is_busy or loop.time() > end:
                return
