"""Starts and ends the processes of sandboxes: the interface, and this machine behind it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from sbx_jupyter.engine.live.sandbox import Sandbox
from sbx_jupyter.engine.state.datadir import DataDir, translate
from sbx_jupyter.engine.state.rows import BuildRow, SandboxRow, layer_paths
from sbx_jupyter.engine.tasks import finish_or_undo
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.isolation.fence import Fence, FenceSpec, Limits
from sbx_jupyter.isolation.kernel import subvolumes

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.isolation.fence import Cage

_log = logging.getLogger(__name__)

_SOCKET: Final = "agent.sock"
_CLOSED_GRACE: Final = 0.5
"""Seconds that PID 1 has to end after its channel; then it is ended."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sandbox is made of."""

    sandbox_id: str
    limits: Limits
    base: str = "host"
    layers: tuple[Path, ...] = ()
    envs: dict[str, str] = field(default_factory=dict[str, str])
    default_user: str = "user"
    default_cwd: str = ""
    volumes: tuple[tuple[Path, str], ...] = ()
    is_sealed: bool = False
    """What it writes becomes a layer when it ends; no snapshot is taken of it before."""


@dataclass(slots=True)
class Placed:
    """The processes of one sandbox: their ``Cage``, and the ``Sandbox`` that speaks to its agent.

    A ``Slot`` has one while its ``SandboxRow`` has processes. ``sandbox`` is ``None`` for frozen
    processes that an engine before this one started, until they are thawed.
    """

    cage: Cage
    sandbox: Sandbox | None


class Placement(Protocol):
    """Starts and ends the processes of sandboxes, and keeps their writable layers."""

    async def place(self, plan: Plan, *, fresh: bool = True) -> Placed:
        """Start a sandbox, on a new writable layer or on the one that it left."""
        ...

    async def adopt(self, row: SandboxRow, limits: Limits) -> Placed | None:
        """Find the processes of a row again, unopened; ``None`` when they are gone."""
        ...

    async def open(
        self, placed: Placed, row: SandboxRow, limits: Limits, envs: dict[str, str]
    ) -> Sandbox:
        """Speak to the agent of an adopted sandbox."""
        ...

    async def end(self, placed: Placed) -> None:
        """Kill the processes; the writable layer stays."""
        ...

    def leave(self, placed: Placed) -> None:
        """Let go of the processes and leave them running."""
        ...

    async def remove(self, sandbox_id: str) -> None:
        """Remove the writable layer and all else that a sandbox left behind."""
        ...

    async def discard(
        self, sandbox_id: str, placed: Placed | None, *, keep_layer: bool = False
    ) -> None:
        """End and remove a sandbox that has no slot; a failure is logged, not raised."""
        ...


class LocalPlacement:
    """This machine."""

    def __init__(self, data_dir: DataDir, fence: Fence) -> None:
        self._data_dir = data_dir
        self._fence = fence

    async def place(self, plan: Plan, *, fresh: bool = True) -> Placed:
        """Start a sandbox; on failure nothing of it stays but the layer that it already had.

        A cancelled caller waits until what was begun is there and has been taken away again.
        Raises ``NoSpaceError`` when the disk is full, and what the fence and the agent raise.
        """
        return await finish_or_undo(
            self._place(plan, fresh),
            undo=lambda placed: self.discard(plan.sandbox_id, placed, keep_layer=not fresh),
        )

    async def _place(self, plan: Plan, fresh: bool) -> Placed:
        cage: Cage | None = None
        try:
            with await asyncio.to_thread(self._prepare, plan) as listener:
                reached("create.prepared")
                cage = await self._fence.create(self._spec(plan), listener)
            reached("create.caged")
            sandbox = Sandbox(
                plan.sandbox_id, cage, self._data_dir.run(plan.sandbox_id), limits=plan.limits
            )
            await sandbox.open(
                envs=plan.envs, default_user=plan.default_user, default_cwd=plan.default_cwd
            )
            reached("create.opened")
        except BaseException as error:
            placed = None if cage is None else Placed(cage, None)
            await self.discard(plan.sandbox_id, placed, keep_layer=not fresh)
            if isinstance(error, OSError | SbxError):
                raise translate(error, "making the sandbox") from error
            raise
        return Placed(cage, sandbox)

    async def adopt(self, row: SandboxRow, limits: Limits) -> Placed | None:
        if row.cage is None:
            return None
        cage = self._fence.adopt(row.sandbox_id, row.cage)
        return None if cage is None else Placed(cage, None)

    async def open(
        self, placed: Placed, row: SandboxRow, limits: Limits, envs: dict[str, str]
    ) -> Sandbox:
        sandbox = Sandbox(
            row.sandbox_id, placed.cage, self._data_dir.run(row.sandbox_id), limits=limits
        )
        await sandbox.open(envs=envs, default_user=row.default_user, default_cwd=row.default_cwd)
        placed.sandbox = sandbox
        return sandbox

    async def end(self, placed: Placed) -> None:
        if placed.sandbox is not None:
            await placed.sandbox.aclose()
        await placed.cage.kill()
        placed.cage.close()

    def leave(self, placed: Placed) -> None:
        if placed.sandbox is not None:
            placed.sandbox.detach()
        placed.cage.close()

    async def remove(self, sandbox_id: str) -> None:
        writable = self._data_dir.writable(sandbox_id)
        await self._fence.remove_writable(writable)
        await asyncio.to_thread(_remove_directories, writable, self._data_dir.run(sandbox_id))

    async def discard(
        self, sandbox_id: str, placed: Placed | None, *, keep_layer: bool = False
    ) -> None:
        try:
            if placed is not None:
                await self.end(placed)
            if not keep_layer:
                await self.remove(sandbox_id)
        except (OSError, SbxError):
            # The next start of an engine collects the rest; the caller has an error of its own.
            _log.exception("the remains of sandbox %s could not be removed", sandbox_id)

    def _spec(self, plan: Plan) -> FenceSpec:
        return FenceSpec(
            sandbox_id=plan.sandbox_id,
            layers=plan.layers,
            base=plan.base,
            writable=self._data_dir.writable(plan.sandbox_id),
            limits=plan.limits,
            volumes=plan.volumes,
        )

    def _prepare(self, plan: Plan) -> socket.socket:
        """Make the directories and the agent's listening socket; blocking."""
        writable = self._data_dir.writable(plan.sandbox_id)
        if not plan.is_sealed and not writable.exists():
            subvolumes.make_folder(writable)
        for directory in (writable, writable / "upper", writable / "work"):
            directory.mkdir(exist_ok=True)
        run = self._data_dir.run(plan.sandbox_id)
        run.mkdir(mode=0o700, exist_ok=True)
        return _listen(run)


def _listen(run: Path) -> socket.socket:
    """A listening socket named ``agent.sock``, however long the path of its directory is."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    directory = os.open(run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_SOCKET, dir_fd=directory)
        # Names of sockets are limited to 107 bytes; through the descriptor it is always short.
        listener.bind(f"/proc/self/fd/{directory}/{_SOCKET}")
        listener.listen(8)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(directory)
    return listener


def _remove_directories(*directories: Path) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def plan_for(
    row: SandboxRow,
    data_dir: DataDir,
    limits: Limits,
    envs: dict[str, str],
    volumes: tuple[tuple[Path, str], ...] = (),
) -> Plan:
    """What the sandbox of a row is made of."""
    return Plan(
        sandbox_id=row.sandbox_id,
        limits=limits,
        base=row.base,
        layers=layer_paths(data_dir.path, row.layers),
        envs=envs,
        default_user=row.default_user,
        default_cwd=row.default_cwd,
        volumes=volumes,
    )


def limits_for(row: SandboxRow | BuildRow, default: Limits) -> Limits:
    """The limits of a sandbox or a build: its own sizes, the rest as configured."""
    return Limits(
        memory_mb=row.memory_mb,
        cpu_count=row.cpu_count,
        processes=default.processes,
        disk_mb=row.disk_size_mb,
        open_files=default.open_files,
    )


def connected_sandbox(placed: Placed) -> Sandbox:
    """The sandbox behind its agent. Raises ``UnavailableError`` when nobody has spoken to it."""
    if placed.sandbox is None:
        raise UnavailableError("the agent of the sandbox is not connected")
    return placed.sandbox


async def wait_dead(placed: Placed) -> str:
    """Wait until PID 1 or the agent's channel is gone; say which."""
    dead = asyncio.ensure_future(placed.cage.wait_dead())
    waits: set[asyncio.Future[Any]] = {dead}
    if placed.sandbox is not None:
        waits.add(asyncio.ensure_future(placed.sandbox.closed.wait()))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not dead.done():
            await asyncio.wait({dead}, timeout=_CLOSED_GRACE)
        if not dead.done():
            return "the agent closed its channel"
        oom = placed.cage.oom_kills()
        return "out of memory" if oom else "the agent died"
    finally:
        for wait in waits:
            wait.cancel()
