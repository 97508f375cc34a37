"""Running programs in a sandbox and looking at what came out."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sbx_jupyter.engine.live.subscriptions import Ended, Output
from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.protocol.runtime import (
    ProcessConfig,
    ProcessInput,
    ProcessSelector,
    Pty,
    PtySize,
    StartRequest,
)
from tests.waiting import PATIENCE, async_until

if TYPE_CHECKING:
    from sbx_jupyter.engine.live.process import Process
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.live.subscriptions import Subscription
    from sbx_jupyter.protocol.runtime import EndEvent


@dataclass
class Heard:
    """Everything that one subscription yielded."""

    outputs: list[Output] = field(default_factory=list)
    ended: EndEvent | None = None

    @property
    def end(self) -> EndEvent:
        """How the process ended."""
        assert self.ended is not None, "the subscription stopped before the process ended"
        return self.ended

    def of(self, kind: str) -> bytes:
        return b"".join(output.chunk for output in self.outputs if output.kind == kind)

    @property
    def stdout(self) -> bytes:
        return self.of("stdout")

    @property
    def stderr(self) -> bytes:
        return self.of("stderr")

    @property
    def pty(self) -> bytes:
        return self.of("pty")


def bash(script: str, **fields) -> StartRequest:
    """A request to run a script, without stdin unless asked for."""
    config = ProcessConfig(cmd="/bin/bash", args=["-c", script])
    return StartRequest(process=config, **{"stdin": False, **fields})


def terminal(script: str, cols: int = 80, rows: int = 24) -> StartRequest:
    config = ProcessConfig(cmd="/bin/bash", args=["-c", script], envs={"TERM": "xterm"})
    return StartRequest(process=config, pty=Pty(size=PtySize(cols=cols, rows=rows)))


async def listen(subscription: Subscription) -> Heard:
    """Listen to the end."""
    heard = Heard()
    async with subscription:
        async for event in subscription:
            if isinstance(event, Ended):
                heard.ended = event.end
            else:
                heard.outputs.append(event)
    return heard


async def listen_until(subscription: Subscription, text: bytes) -> bytes:
    """Listen, on a subscription that stays open, until ``text`` came."""
    heard = b""
    async with asyncio.timeout(PATIENCE):
        while text not in heard:
            event = await anext(subscription)
            if isinstance(event, Ended):
                raise AssertionError(f"ended ({event.end}) before {text!r}: {heard!r}")
            heard += event.chunk
    return heard


async def run(sandbox: Sandbox, script: str, *, timeout: float | None = None) -> Heard:
    process = await sandbox.processes.start(bash(script), timeout=timeout)
    return await listen(process.subscribe())


async def type_in(process: Process, text: bytes) -> None:
    await process.send_input(ProcessInput(pty=text))


def waits_for_reading(process: Process) -> bool:
    """Whether input waits because the process does not read what its pipe is full of."""
    writer = process._input
    return writer is not None and writer._writable is not None


async def is_held_up(sandbox: Sandbox, process: Process, program: str) -> bool:
    """Wait until a program writes no more, since nobody takes it, or its process is over.

    False when it could write everything.
    """
    written: list[bytes] = []

    async def is_settled() -> bool:
        heard = await run(sandbox, f"grep wchar /proc/$(pgrep -x {program})/io")
        written.append(heard.stdout)
        return process.has_exited or (written[-1] != b"" and written[-5:] == written[-1:] * 5)

    await async_until(is_settled)
    return not process.has_exited


def is_forgotten(sandbox: Sandbox, process: Process) -> bool:
    """Whether even the end of a process can no longer be asked for."""
    try:
        sandbox.processes.select(ProcessSelector(pid=process.pid), ended=True)
    except NotFoundError:
        return True
    return False


async def exists(sandbox: Sandbox, path: str) -> bool:
    """Whether a file is there, for a script to tell how far it got."""
    try:
        await sandbox.files.stat(path)
    except NotFoundError:
        return False
    return True


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
