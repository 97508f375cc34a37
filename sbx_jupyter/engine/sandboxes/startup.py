"""Runs a template's start command when a sandbox boots, and waits until it is ready."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.live.subscriptions import Ended
from sbx_jupyter.engine.templates.builds.build_log import follow
from sbx_jupyter.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    SbxError,
)
from sbx_jupyter.protocol.runtime import ProcessConfig, StartRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.engine.live.process import Process
    from sbx_jupyter.engine.live.sandbox import Sandbox

START_TAG: Final = "_start"
BOOT_LIMIT: Final = 60.0
"""Seconds within which a new sandbox must be ready."""

_FIRST_WAIT: Final = 0.05
_LONGEST_WAIT: Final = 2.0


async def run_start_command(
    start: str | None,
    ready: str | None,
    sandbox: Sandbox,
    *,
    limit: float = BOOT_LIMIT,
    say: Callable[[str, str], bool | None] | None = None,
) -> None:
    """Run the start command and wait until the ready command succeeds (interface 7.4).

    ``say`` gets each line that the start command writes meanwhile, and its kind. Raises
    ``DeadlineExceededError`` when it is not ready after ``limit`` seconds,
    ``FailedPreconditionError`` when the start command fails before or the ready command cannot run.
    """
    process = None
    if start:
        request = StartRequest(process=_shell(start), tag=START_TAG, stdin=False)
        process = await sandbox.processes.start(request, user=None, timeout=None)
    if not ready:
        return
    watching = None if process is None else asyncio.create_task(_watch(process, say))
    waiting = asyncio.create_task(_wait_ready(ready, sandbox, limit))
    tasks = {waiting} if watching is None else {waiting, watching}
    try:
        async with asyncio.timeout(limit):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if watching is not None and watching.done():
                watching.result()
            await waiting
    except TimeoutError:
        raise DeadlineExceededError(
            f"the template's start command is not ready after {limit:.0f} seconds"
        ) from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(process: Process, say: Callable[[str, str], bool | None] | None) -> None:
    """Return when the start command exits with 0, else raise ``FailedPreconditionError``."""
    end = await follow(process, say or _drop)
    if end.exit_code != 0:
        raise FailedPreconditionError(f"failed to run start command: command failed: {end.status}")


def _drop(line: str, kind: str) -> bool:
    return False


async def _wait_ready(command: str, sandbox: Sandbox, limit: float) -> None:
    wait = _FIRST_WAIT
    while not await _succeeds(command, sandbox, limit):
        await asyncio.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT)


async def _succeeds(command: str, sandbox: Sandbox, limit: float) -> bool:
    request = StartRequest(process=_shell(command), stdin=False)
    try:
        process = await sandbox.processes.start(request, user=None, timeout=limit)
    except SbxError as error:
        raise FailedPreconditionError(f"failed to run ready command: {error.message}") from error
    async with process.subscribe() as subscription:
        async for event in subscription:
            if isinstance(event, Ended):
                return event.end.exit_code == 0
    return False


def _shell(command: str) -> ProcessConfig:
    return ProcessConfig(cmd="/bin/bash", args=["-l", "-c", command])
