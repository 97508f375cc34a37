"""Starts and ends the processes of sandboxes: the interface, and its local implementation."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from sbx_jupyter.engine.live.sandbox import Sandbox
from sbx_jupyter.engine.state.datadir import DataDir, translate
from sbx_jupyter.engine.state.rows import BuildRow, SandboxRow, layer_paths
from sbx_jupyter.engine.tasks import finish_or_undo
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.isolation.fence_spec import FenceSpec, Limits

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from sbx_jupyter.engine.state.manifests import Manifests
    from sbx_jupyter.engine.unfinished_removals import UnfinishedRemovals
    from sbx_jupyter.isolation.fence import Cage
    from sbx_jupyter.isolation.privileged.remote_fence import AnyFence

_log = logging.getLogger(__name__)

_SOCKET: Final = "agent.sock"
_CLOSED_GRACE: Final = 0.5
"""Seconds to wait for the end of PID 1 after the agent's channel closed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The inputs to a sandbox's start. ``volumes`` are pairs of directory and mount point.

    ``shown`` are directories of the machine that it sees read-only.
    """

    sandbox_id: str
    limits: Limits
    base: str = "host"
    layers: tuple[Path, ...] = ()
    envs: dict[str, str] = field(default_factory=dict[str, str])
    default_user: str = "user"
    default_cwd: str = ""
    volumes: tuple[tuple[Path, str], ...] = ()
    shown: tuple[str, ...] = ()


@dataclass(slots=True)
class Placed:
    """The processes of one sandbox: their ``Cage``, and the ``Sandbox`` connected to its agent.

    A ``Slot`` has one while the sandbox has processes. ``sandbox`` is ``None`` for frozen
    processes of a previous engine until they are thawed.
    """

    cage: Cage
    sandbox: Sandbox | None


class Placement(Protocol):
    """Starts and ends the processes of sandboxes, and keeps their writable layers."""

    async def place(self, plan: Plan, *, fresh: bool = True) -> Placed:
        """Start a sandbox, on a new writable layer or, unless ``fresh``, on the one it has."""
        ...

    async def adopt(self, row: SandboxRow, limits: Limits) -> Placed | None:
        """Find the processes of a stored sandbox, not connected yet; ``None`` if they ended."""
        ...

    async def open(
        self, placed: Placed, row: SandboxRow, limits: Limits, envs: dict[str, str]
    ) -> Sandbox:
        """Connect to the agent of an adopted sandbox."""
        ...

    async def end(self, placed: Placed) -> None:
        """Kill the processes; keep the writable layer."""
        ...

    def leave(self, placed: Placed) -> None:
        """Close the connection to the processes and leave them running."""
        ...

    async def remove(self, sandbox_id: str) -> None:
        """Remove the writable layer and the run directory of a sandbox.

        A failure is raised, and the removal is taken up again later.
        """
        ...

    async def discard(
        self, sandbox_id: str, placed: Placed | None, *, keep_layer: bool = False
    ) -> None:
        """End and remove a sandbox that has no slot; a failure is logged, not raised."""
        ...


class LocalPlacement:
    """Places sandboxes on this machine; see ``Placement`` for the methods."""

    def __init__(
        self, data_dir: DataDir, fence: AnyFence, manifests: Manifests, removals: UnfinishedRemovals
    ) -> None:
        self._data_dir = data_dir
        self._removals = removals
        self._manifests = manifests
        self._fence = fence

    async def place(self, plan: Plan, *, fresh: bool = True) -> Placed:
        """Start a sandbox; on failure, remove everything except a layer that it already had.

        If the caller is cancelled, it waits until the sandbox has started and been removed again.
        Raises ``NoSpaceError`` when the disk is full, and the errors of the fence and the agent.
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
        cage = await self._fence.recover(row.sandbox_id, row.cage)
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
        try:
            await self._remove(sandbox_id)
        except (SbxError, OSError):
            # Ids are never used again, so this cannot meet another sandbox.
            self._removals.add(f"sandbox {sandbox_id}", lambda: self._remove(sandbox_id))
            raise

    async def _remove(self, sandbox_id: str) -> None:
        writable = self._data_dir.writable(sandbox_id)
        await asyncio.to_thread(self._manifests.forget_sandbox, sandbox_id)
        await self._fence.tree_operations.remove(writable)
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
            # The rest is removed later; the caller has its own error.
            _log.exception("the remains of sandbox %s could not be removed", sandbox_id)

    def _spec(self, plan: Plan) -> FenceSpec:
        return FenceSpec(
            sandbox_id=plan.sandbox_id,
            layers=plan.layers,
            base=plan.base,
            writable=self._data_dir.writable(plan.sandbox_id),
            limits=plan.limits,
            volumes=plan.volumes,
            shown=plan.shown,
        )

    def _prepare(self, plan: Plan) -> socket.socket:
        """Make the run directory and the agent's listening socket; blocking."""
        run = self._data_dir.run(plan.sandbox_id)
        run.mkdir(mode=0o700, exist_ok=True)
        return _listen(run)


def _listen(run: Path) -> socket.socket:
    """Listen on the socket ``agent.sock`` in ``run``, whose path may have any length."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    directory = os.open(run, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_SOCKET, dir_fd=directory)
        # A socket's path has at most 107 bytes; the path through the descriptor is short enough.
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
    """The plan of a stored sandbox."""
    return Plan(
        sandbox_id=row.sandbox_id,
        limits=limits,
        base=row.base,
        layers=layer_paths(data_dir.path, row.layers),
        envs=envs,
        default_user=row.default_user,
        default_cwd=row.default_cwd,
        volumes=volumes,
        shown=row.shown,
    )


def limits_for(row: SandboxRow | BuildRow, default: Limits) -> Limits:
    """The limits of a sandbox or build: its own sizes, and the rest from ``default``."""
    return Limits(
        memory_mb=row.memory_mb,
        cpu_count=row.cpu_count,
        processes=default.processes,
        disk_mb=row.disk_size_mb,
        open_files=default.open_files,
    )


def connected_sandbox(placed: Placed) -> Sandbox:
    """The connected sandbox; raises ``UnavailableError`` before its agent is connected."""
    if placed.sandbox is None:
        raise UnavailableError("the agent of the sandbox is not connected")
    return placed.sandbox


class End(NamedTuple):
    """Why a sandbox cannot go on: its processes ended, or its agent is out of reach."""

    why: str
    is_channel_only: bool
    """Whether the first process lives on."""


def settled_files(placed: Placed) -> AbstractAsyncContextManager[None]:
    """Keeps what clients upload from being half in its file when the processes stop."""
    sandbox = placed.sandbox
    return contextlib.nullcontext() if sandbox is None else sandbox.files.settled()


async def wait_dead(placed: Placed) -> End:
    """Wait until PID 1 or the agent's channel has ended; return which, and the cause as text."""
    dead = asyncio.ensure_future(placed.cage.wait_dead())
    waits: set[asyncio.Future[Any]] = {dead}
    if placed.sandbox is not None:
        waits.add(asyncio.ensure_future(placed.sandbox.closed.wait()))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not dead.done():
            await asyncio.wait({dead}, timeout=_CLOSED_GRACE)
        if not dead.done():
            return End("the agent closed its channel", is_channel_only=True)
        oom = placed.cage.oom_kills()
        return End("out of memory" if oom else "the agent died", is_channel_only=False)
    finally:
        for wait in waits:
            wait.cancel()
