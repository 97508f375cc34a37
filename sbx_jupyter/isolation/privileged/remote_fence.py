"""The fence of an engine without privileges: every step is asked of the helper."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import IsolationError, SbxError, UnavailableError
from sbx_jupyter.isolation.cage import Cage
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.kernel.cgroups import SandboxGroup
from sbx_jupyter.isolation.privileged import messages
from sbx_jupyter.isolation.privileged.remote_networks import RemoteTapConnections
from sbx_jupyter.isolation.privileged.remote_trees import RemoteTreeOperations, RemoteTrees
from sbx_jupyter.isolation.resource_use.open_files import OpenFiles
from sbx_jupyter.isolation.resource_use.processes import Memory
from sbx_jupyter.isolation.tiers import IsolationReport
from sbx_jupyter.isolation.tree_operations import relative_to

if TYPE_CHECKING:
    import socket

    from sbx_jupyter.isolation.fence_spec import FenceSpec
    from sbx_jupyter.isolation.kernel.usage import Usage
    from sbx_jupyter.isolation.privileged.connection import HelperConnection

_START_TIMEOUT = 180.0
_CREATE_TIMEOUT = 90.0
_COLLECT_TIMEOUT = 600.0
_END_TIMEOUT = 300.0
"""Seconds for the end of a sandbox, which may first have to be made."""

_log = logging.getLogger(__name__)


class RemoteFence:
    """Makes sandboxes by a helper; the methods are those of ``Fence``."""

    def __init__(self, data_dir: Path, connection: HelperConnection) -> None:
        self._data_dir = data_dir.resolve()
        self._connection = connection
        self.stock: Path | None = None
        self.zygote_pid: int | None = None
        self.tree_operations = RemoteTreeOperations(self._data_dir, connection)
        self.stored = RemoteTrees(connection)
        self.connections = RemoteTapConnections(connection)

    async def open(self) -> tuple[IsolationReport, str]:
        """Wait until the fence stands; gives how it isolates, and the tier.

        Raises ``IsolationError`` when this machine cannot give it.
        """
        try:
            body, _ = await self._connection.call(messages.Describe(), timeout=_START_TIMEOUT)
        except OSError as error:
            raise IsolationError(f"the fence cannot be made: {error}") from error
        self.stock = self._data_dir / "stock" / body["stock"] if body["stock"] else None
        self.zygote_pid = body["zygote"]
        return msgspec.convert(body["report"], IsolationReport), body["tier"]

    async def restart(self) -> None:
        """Replace the helper, which starts afresh; the sandboxes keep running."""
        await self._connection.restart(messages.Stop())

    async def stop(self) -> None:
        """End the helper and the zygote; the sandboxes keep running."""
        await self._connection.aclose(messages.Stop())

    async def create(self, spec: FenceSpec, listener: socket.socket) -> Cage:
        """Make a sandbox whose agent accepts on ``listener``. Raises as ``Fence.create``."""
        volumes = [(source.name, target) for source, target in spec.volumes]
        message = messages.Create(
            sandbox_id=spec.sandbox_id,
            writable=self._name(spec.writable),
            layers=[self._name(layer) for layer in spec.layers],
            on_stock=spec.base == "host",
            volumes=volumes,
            memory_mb=spec.limits.memory_mb,
            cpu_count=spec.limits.cpu_count,
            processes=spec.limits.processes,
            disk_mb=spec.limits.disk_mb,
            open_files=spec.limits.open_files,
        )
        try:
            body, fds = await self._connection.call(
                message, [listener.fileno()], timeout=_CREATE_TIMEOUT
            )
        except (UnavailableError, asyncio.CancelledError):
            await self._end_unheard(spec.sandbox_id)
            raise
        cage = self._cage(spec.sandbox_id, body, fds)
        if cage is None:
            raise UnavailableError("the helper made no sandbox")
        return cage

    async def _end_unheard(self, sandbox_id: str) -> None:
        """End the sandbox of a request without an answer: the helper may have made it."""
        message = messages.Kill(sandbox_id=sandbox_id)
        try:
            await self._connection.insist(message, timeout=_END_TIMEOUT)
        except (SbxError, OSError):
            _log.exception("sandbox %s may go on until the next start", sandbox_id)

    async def recover(self, sandbox_id: str, state: dict[str, Any]) -> Cage | None:
        """The cage of a sandbox that an earlier engine made; None when it is gone."""
        body, fds = await self._connection.call(messages.Adopt(sandbox_id=sandbox_id))
        return self._cage(sandbox_id, body, fds)

    async def open_files(self, cage: Cage) -> OpenFiles:
        """Measure what a sandbox's processes hold open. Raises ``SbxError``."""
        body, _ = await self._connection.call(messages.OpenFiles(sandbox_id=cage.sandbox_id))
        return OpenFiles.from_json(body)

    async def collect(self, known: set[str]) -> None:
        """Kill the sandboxes of this data directory that are not in ``known``."""
        message = messages.Collect(known=sorted(known))
        await self._connection.call(message, timeout=_COLLECT_TIMEOUT)

    async def publish(self, content: str) -> None:
        """Write the connection file. Raises ``OSError``."""
        await self._connection.call(messages.Publish(content=content))

    async def unpublish(self) -> None:
        """Remove the connection file. Raises ``OSError``."""
        await self._connection.call(messages.Unpublish())

    def _cage(self, sandbox_id: str, body: dict[str, Any], fds: list[int]) -> Cage | None:
        state = body["state"]
        if state is None or not fds:
            wire.close_all(fds)
            return None
        return RemoteCage(self._connection, sandbox_id, state, fds.pop())

    def _name(self, path: Path) -> str:
        return relative_to(self._data_dir, path)


AnyFence = Fence | RemoteFence
"""The fence by which an engine makes sandboxes: its own, or that of its helper."""


class RemoteCage(Cage):
    """A fenced sandbox that the helper controls; its processes are only looked at from here."""

    def __init__(
        self, connection: HelperConnection, sandbox_id: str, state: dict[str, Any], pidfd: int
    ) -> None:
        super().__init__(
            sandbox_id,
            pid=state["pid"],
            pidfd=pidfd,
            start_time=state["start_time"],
            writable=Path(state["writable"]),
            group=SandboxGroup.from_state(state["group"]),
            records=None,
            kept=state["kept"],
        )
        self._connection = connection

    async def kill(self) -> None:
        await self._connection.insist(messages.Kill(sandbox_id=self.sandbox_id))
        await self.wait_dead()

    async def freeze(self) -> None:
        await self._connection.insist(messages.Freeze(sandbox_id=self.sandbox_id, frozen=True))

    async def thaw(self) -> None:
        await self._connection.insist(messages.Freeze(sandbox_id=self.sandbox_id, frozen=False))

    def usage(self) -> Usage | None:
        return self._group.usage()

    def end_process(self, pid: int) -> str:
        message = messages.EndProcess(sandbox_id=self.sandbox_id, pid=pid)
        return self._connection.ask(message)[0]["name"]

    def memory(self, *, exact: bool) -> dict[int, Memory]:
        if not exact:
            return super().memory(exact=False)
        body, _ = self._connection.ask(messages.Resident(sandbox_id=self.sandbox_id))
        return {int(pid): Memory(*found) for pid, found in body["found"].items()}

    def count_disk(self) -> int | None:
        tree = f"sandboxes/{self.writable.name}/upper"
        with contextlib.suppress(SbxError, OSError):
            (size,) = self._connection.ask(messages.Measure(trees=[tree]))[0]["sizes"]
            return None if size is None else size[0]
        return None
