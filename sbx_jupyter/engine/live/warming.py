"""Does in sandboxes ahead of use what takes long the first time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.templates.catalogue import INTERPRETER_TEMPLATE_ID
from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.runtime import ProcessConfig, StartRequest

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.sandboxes.slots import Slots
    from sbx_jupyter.engine.state.rows import SandboxRow

_log = logging.getLogger(__name__)

_DELAY: Final = 0.2
"""Seconds from the start of a sandbox, and between two checks whether any is being created."""
_PACE: Final = 1.0
"""Seconds between two starts: about the processor time of one."""
_MAX_DELAY: Final = 10.0
"""Seconds that a start waits at most while sandboxes are being created."""
MAX_WAITING: Final = 256


_LONGEST_REHEARSAL: Final = 10.0
_NOTHING: Final = StartRequest(process=ProcessConfig(cmd="/bin/true"), stdin=False)


async def rehearse(sandbox: Sandbox) -> None:
    """Run a program that does nothing, so that the first one of a client starts as fast as others.

    The first one of a sandbox takes twice as long: the agent copies the memory that it shares with
    the zygote, and reads the users, and the kernel looks up the program in new mounts.
    """
    try:
        process = await sandbox.processes.start(_NOTHING, timeout=_LONGEST_REHEARSAL)
        async with process.subscribe() as output:
            async for _ in output:
                pass
    except SbxError as error:
        _log.info("no program ran in sandbox %s: %s", sandbox.sandbox_id, error)
        return
    await sandbox.processes.forget(process)


class InterpreterWarmer:
    """Starts the interpreters of one engine, one at a time, while no sandbox is being created.

    Clients do not depend on it: the first use starts the interpreter, or waits for a start that
    has begun.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._waiting: deque[Sandbox] = deque(maxlen=MAX_WAITING)
        self._working: asyncio.Task[None] | None = None

    async def started(self, row: SandboxRow, sandbox: Sandbox) -> None:
        """Queue a sandbox with new processes, if it is of the interpreter template."""
        is_build = self._slots.get(row.sandbox_id) is None
        if is_build or row.template_id != INTERPRETER_TEMPLATE_ID:
            return
        self._waiting.append(sandbox)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(), name="sbx-warming")

    async def aclose(self) -> None:
        """Stop, leaving the rest of the queue."""
        self._waiting.clear()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    async def _work(self) -> None:
        while self._waiting:
            await self._wait_for_creations()
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

    async def _wait_for_creations(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + _MAX_DELAY
        while True:
            await asyncio.sleep(_DELAY)
            is_busy = any(slot.state is State.CREATING for slot in self._slots)
            if not is_busy or loop.time() > end:
                return
