"""Sandboxes that run build steps: each runs one step, and no list shows them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sbx_jupyter.engine.sandboxes.creation import draft_from
from sbx_jupyter.engine.sandboxes.placement import limits_for, plan_for
from sbx_jupyter.engine.tasks import finish_or_undo
from sbx_jupyter.engine.templates.builds.build_log import follow
from sbx_jupyter.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.protocol.runtime import ProcessConfig, ProcessInput, StartRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.live.process import Process
    from sbx_jupyter.engine.live.sandbox import Sandbox
    from sbx_jupyter.engine.sandboxes.placement import Placed, Plan
    from sbx_jupyter.engine.state.rows import BuildRow, SandboxRow, TemplateRow

_CHUNK: Final = 256 * 1024
_FIRST_LOOK: Final = 1.0


class CommandError(InvalidArgumentError):
    """A command of a build failed; the message is the reason."""


@dataclass(frozen=True, slots=True)
class RootFilesystem:
    """The root file system that a step runs on: a stock base or none, and layers above it."""

    base: str
    layers: tuple[str, ...]


@dataclass(slots=True)
class BuildSandbox:
    """A sandbox that runs one build step."""

    row: SandboxRow
    live: Sandbox
    _context: Context
    _placed: Placed | None

    async def run(
        self,
        config: ProcessConfig,
        *,
        user: str,
        timeout: float,
        say: Callable[[str, str], bool | None],
        source: Path | None = None,
    ) -> None:
        """Run a command until it ends, with the file ``source`` as its input.

        Raises ``CommandError`` when it cannot be started, fails or takes too long.
        """
        request = StartRequest(process=config, stdin=source is not None)
        try:
            process = await self.live.processes.start(request, user=user, timeout=timeout)
            feeding = None
            if source is not None:
                feeding = asyncio.create_task(_feed(process, source))
            watching = asyncio.create_task(self._watch_disk(process))
            try:
                await self._follow(process, say)
            finally:
                besides = [watching] if feeding is None else [watching, feeding]
                for task in besides:
                    task.cancel()
                await asyncio.gather(*besides, return_exceptions=True)
            await self._check_disk()
        except CommandError:
            await self._check_disk()
            raise
        except DeadlineExceededError:
            raise CommandError(f"it ran longer than {timeout:g} seconds") from None
        except UnavailableError as error:
            why = "out of memory" if self._has_oom() else error.message
            raise CommandError(why) from error
        except SbxError as error:
            raise CommandError(f"{error.code}: {error.message}") from error

    async def _follow(self, process: Process, say: Callable[[str, str], bool | None]) -> None:
        end = await follow(process, say)
        if end.exit_code != 0:
            memory = " (out of memory)" if self._has_oom() else ""
            raise CommandError(f"{end.status}{memory}")

    async def _watch_disk(self, process: Process) -> None:
        """Kill a command that writes more than its disk limit."""
        while True:
            started = asyncio.get_running_loop().time()
            await asyncio.sleep(_FIRST_LOOK)
            if await self._written() > self._disk_bytes:
                await process.signal(signal.SIGKILL)
                return
            # Measuring many files takes time: it may take up to a tenth of the total.
            await asyncio.sleep(10 * (asyncio.get_running_loop().time() - started - _FIRST_LOOK))

    async def _check_disk(self) -> None:
        if await self._written() > self._disk_bytes:
            raise CommandError(f"it wrote more than {self.row.disk_size_mb} MiB")

    async def _written(self) -> int:
        return await self._context.layers.measure(self.row.sandbox_id)

    @property
    def _disk_bytes(self) -> int:
        return self.row.disk_size_mb << 20

    def _has_oom(self) -> bool:
        return self._placed is not None and self._placed.cage.oom_kills() > 0

    async def seal(self, name: str) -> str:
        """End the sandbox and turn what it wrote into a layer in ``name``; gives its full name."""
        await self.end()
        return await finish_or_undo(self._context.layers.seal(self.row.sandbox_id, name))

    async def end(self) -> None:
        """End all processes; may be called more than once."""
        placed, self._placed = self._placed, None
        if placed is not None:
            await finish_or_undo(self._context.placement.end(placed))

    async def clear(self) -> None:
        """End the sandbox and remove what it wrote, except a sealed layer."""
        await self.end()
        for hook in self._context.hooks.stopped:
            await hook(self.row.sandbox_id)
        await self._context.placement.remove(self.row.sandbox_id)


async def _feed(process: Process, source: Path) -> None:
    """Write a file to the input of a process; it is no error if the process stops reading."""
    file = await asyncio.to_thread(source.open, "rb")
    with file, contextlib.suppress(SbxError, OSError):
        while chunk := await asyncio.to_thread(file.read, _CHUNK):
            await process.send_input(ProcessInput(stdin=chunk))
    with contextlib.suppress(SbxError):
        await process.close_stdin()


@contextlib.asynccontextmanager
async def open_build_sandbox(
    context: Context,
    template: TemplateRow,
    build: BuildRow,
    root: RootFilesystem,
    *,
    user: str = "root",
    workdir: str = "",
    envs: dict[str, str] | None = None,
) -> AsyncGenerator[BuildSandbox]:
    """Start a sandbox on ``root``, and remove it when the context ends.

    No row names it, so after a crash the next engine removes it with its writable layer.
    """
    row = replace(
        draft_from(template, build),
        base=root.base,
        layers=root.layers,
        default_user=user,
        default_cwd=workdir,
        template_envs=envs or {},
        start_command=None,
        ready_command=None,
    )
    limits = limits_for(row, context.config.default_limits)
    plan = plan_for(row, context.data_dir, limits, context.envs_of(row))
    placing = asyncio.create_task(_place(context, row, plan))
    try:
        sandbox = await asyncio.shield(placing)
    except asyncio.CancelledError:
        await finish_or_undo(_unplace(placing))
        raise
    try:
        for hook in context.hooks.started:
            await hook(row, sandbox.live)
        yield sandbox
    finally:
        await finish_or_undo(sandbox.clear())


async def _place(context: Context, row: SandboxRow, plan: Plan) -> BuildSandbox:
    placed = await context.placement.place(plan)
    if placed.sandbox is None:
        raise UnavailableError("the agent of the sandbox is not connected")
    return BuildSandbox(row, placed.sandbox, context, placed)


async def _unplace(placing: asyncio.Task[BuildSandbox]) -> None:
    """Remove the sandbox of a cancelled caller as soon as it has started."""
    with contextlib.suppress(SbxError):
        await (await placing).clear()
