"""The engine's side of the fence: one zygote, and a cage around each sandbox."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.errors import IsolationError, UnavailableError

from . import rootfs, users
from .cage import Cage, boot_id, start_time_of
from .cgroups import SandboxGroup
from .zygote_process import ZygoteProcess, start_zygote

if TYPE_CHECKING:
    import socket

    from .tiers import IsolationReport

logger = logging.getLogger(__name__)

_AGENT: Final = "sbx_jupyter.agent.main"
_SETUP_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use; 0 means no limit."""

    memory_mb: int
    cpu_count: int
    processes: int
    disk_mb: int
    open_files: int


@dataclass(frozen=True, slots=True)
class FenceSpec:
    """How to make one sandbox."""

    sandbox_id: str
    layers: tuple[Path, ...]
    """Read-only layers, topmost first, above the stock base."""
    base: str
    """``"host"``: the stock root file system; ``""``: the layers hold a complete root."""
    writable: Path
    """Directory with ``upper`` and ``work``, in the data directory."""
    limits: Limits
    network: bool = True
    volumes: tuple[tuple[Path, str], ...] = ()


class Fence:
    """Makes sandboxes; one per engine."""

    def __init__(
        self, data_dir: Path, report: IsolationReport, tier: str, *, agent: str = _AGENT
    ) -> None:
        """``agent`` is the module whose ``run`` becomes the sandboxes' first process."""
        self._data_dir = data_dir.resolve()
        self._report = report
        self._tier = tier
        self._agent = agent
        self._zygote: ZygoteProcess | None = None
        self._starting = asyncio.Lock()
        self.stock: Path | None = None
        """The layer of the stock root file system, once started."""

    async def start(self) -> None:
        """Start the zygote, building the stock layer at first. Raises ``IsolationError``."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._data_dir.chmod(0o700)
        await self._live_zygote()

    async def stop(self) -> None:
        """End the zygote; the sandboxes go on."""
        if self._zygote is not None:
            await self._zygote.stop()
            self._zygote = None

    async def create(self, spec: FenceSpec, listener: socket.socket) -> Cage:
        """Make a sandbox whose agent accepts on ``listener``; a dead zygote is replaced once.

        Raises ``IsolationError`` when it cannot be set up, ``UnavailableError`` when no zygote
        answers.
        """
        spec.writable.mkdir(parents=True, exist_ok=True)
        try:
            return await self._create(spec, listener)
        except UnavailableError:
            logger.warning("the zygote is gone; starting another one")
            return await self._create(spec, listener)

    async def _create(self, spec: FenceSpec, listener: socket.socket) -> Cage:
        zygote = await self._live_zygote()
        reply = await zygote.call(
            "create", fds=[listener.fileno()], order=self._order(spec), timeout=_SETUP_TIMEOUT
        )
        pidfd, outcome = reply.fds
        pid = reply.body["pid"]
        cage = Cage(
            spec.sandbox_id,
            pid=pid,
            pidfd=pidfd,
            start_time=start_time_of(pid) or 0,
            writable=spec.writable,
            group=SandboxGroup({}),
        )
        said = await _read_outcome(outcome)
        if said != "ok":
            await cage.kill()
            cage.close()
            raise IsolationError(f"the sandbox could not be set up: {said or 'it died'}")
        return cage

    def _order(self, spec: FenceSpec) -> dict[str, Any]:
        limits = spec.limits
        return {
            "sandbox_id": spec.sandbox_id,
            "layers": [self._relative(layer) for layer in spec.layers],
            "host_base": spec.base == "host",
            "writable": self._relative(spec.writable),
            "volumes": [[self._relative(source), target] for source, target in spec.volumes],
            "processes": limits.processes,
            "memory_mb": limits.memory_mb,
            "open_files": limits.open_files,
            "disk_mb": limits.disk_mb,
            "limit_by_rlimit": False,
            "cap_pids": False,
            "real_users": self._report.users != users.VIRTUAL,
        }

    def _relative(self, path: Path) -> str:
        try:
            return str(path.resolve().relative_to(self._data_dir))
        except ValueError:
            raise IsolationError(f"{path} is not in the data directory") from None

    async def _live_zygote(self) -> ZygoteProcess:
        async with self._starting:
            if self._zygote is not None and self._zygote.alive:
                return self._zygote
            if self._zygote is not None:
                await self._zygote.stop()
            kind = self._report.users
            base = users.root_base() if kind == users.ROOT_MAPPED else 0
            plan = rootfs.plan_stock(
                real_users=kind != users.VIRTUAL, host_root_mapped=kind == users.ROOT_MAPPED
            )
            self._zygote, self.stock = await start_zygote(
                self._data_dir, kind, plan, base or 0, agent=self._agent
            )
            return self._zygote

    def adopt(self, sandbox_id: str, state: dict[str, Any]) -> Cage | None:
        """The cage of a sandbox that an earlier engine made; None when it is gone."""
        if state["boot_id"] != boot_id():
            return None
        pid, start_time = state["pid"], state["start_time"]
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        if start_time_of(pid) != start_time:
            os.close(pidfd)
            return None
        return Cage(
            sandbox_id,
            pid=pid,
            pidfd=pidfd,
            start_time=start_time,
            writable=Path(state["writable"]),
            group=SandboxGroup({name: Path(path) for name, path in state["group"].items()}),
        )

    async def remove_writable(self, writable: Path) -> None:
        """Delete a writable directory, whatever ids own what is in it. Raises ``SbxError``."""
        zygote = await self._live_zygote()
        await zygote.call("remove", path=str(writable.resolve()), timeout=600)


async def _read_outcome(pipe: int) -> str:
    """What the child says about its set-up: ``ok``, a sentence, or nothing when it died."""
    loop = asyncio.get_running_loop()
    os.set_blocking(pipe, False)
    said = b""
    try:
        while True:
            ready = loop.create_future()
            loop.add_reader(pipe, ready.set_result, None)
            try:
                async with asyncio.timeout(_SETUP_TIMEOUT):
                    await ready
            finally:
                loop.remove_reader(pipe)
            chunk = os.read(pipe, 4096)
            if not chunk or said + chunk == b"ok":
                return (said + chunk).decode(errors="replace")
            said += chunk
    except TimeoutError:
        return "it did not finish in time"
    finally:
        os.close(pipe)
