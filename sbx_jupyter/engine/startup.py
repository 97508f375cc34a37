"""What a template has run when a sandbox of it boots: its start command, until it is ready."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.subscriptions import Ended
from sbx_jupyter.errors import DeadlineExceededError
from sbx_jupyter.protocol.runtime import ProcessConfig, StartRequest

if TYPE_CHECKING:
    from sbx_jupyter.engine.records import SandboxRow
    from sbx_jupyter.engine.sandbox import Sandbox

START_TAG: Final = "_start"

_READY_TIMEOUT: Final = 60.0
_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 2.0


async def run_start_command(row: SandboxRow, sandbox: Sandbox) -> None:
    """Start the template's command and wait until its ready command succeeds.

    Raises ``DeadlineExceededError`` when it is not ready in time.
    """
    if row.start_command:
        request = StartRequest(process=_shell(row.start_command), tag=START_TAG, stdin=False)
        await sandbox.processes.start(request, user=None, timeout=None)
    if not row.ready_command:
        return
    try:
        async with asyncio.timeout(_READY_TIMEOUT):
            await _wait_ready(row.ready_command, sandbox)
    except TimeoutError:
        raise DeadlineExceededError(
            f"the template's start command is not ready after {_READY_TIMEOUT:.0f} seconds"
        ) from None


async def _wait_ready(command: str, sandbox: Sandbox) -> None:
    wait = _FIRST_WAIT
    while not await _succeeds(command, sandbox):
        await asyncio.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT)


async def _succeeds(command: str, sandbox: Sandbox) -> bool:
    request = StartRequest(process=_shell(command), stdin=False)
    process = await sandbox.processes.start(request, user=None, timeout=_READY_TIMEOUT)
    async with process.subscribe() as subscription:
        async for event in subscription:
            if isinstance(event, Ended):
                return event.end.exit_code == 0
    return False


def _shell(command: str) -> ProcessConfig:
    return ProcessConfig(cmd="/bin/bash", args=["-l", "-c", command])
