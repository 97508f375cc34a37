"""One fenced sandbox, seen from outside."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.agent.procfs import boot_id
from sbx_jupyter.isolation.confined import descendants
from sbx_jupyter.isolation.resource_use import processes

if TYPE_CHECKING:
    from pathlib import Path

    from sbx_jupyter.isolation.kernel.cgroups import SandboxGroup
    from sbx_jupyter.isolation.kernel.usage import Usage
    from sbx_jupyter.isolation.resource_use.processes import Memory
    from sbx_jupyter.isolation.zygote.cage_records import CageRecords

_log = logging.getLogger(__name__)

_COUNT_TIMEOUT: Final = 60.0


class Cage:
    """The first process of a sandbox, its writable directory and its control group.

    The processes of a sandbox as they are controlled from outside: kill, freeze, usage. The
    ``Placed`` of the engine's ``Slot`` pairs it with the ``Sandbox`` that talks to the agent.

    The engine waits by a pidfd and not as the parent, which may have changed.
    """

    def __init__(
        self,
        sandbox_id: str,
        *,
        pid: int,
        pidfd: int,
        start_time: int,
        writable: Path,
        group: SandboxGroup,
        records: CageRecords | None,
        kept: bool = False,
    ) -> None:
        """``kept``: ``pid`` is the keeper (``confined/keeper.py``), outside the sandbox."""
        self.sandbox_id = sandbox_id
        self.pid = pid
        self.pidfd = pidfd
        self.kept = kept
        self.writable = writable
        self._start_time = start_time
        self._group = group
        self._together: tuple[str, SandboxGroup] | None = None
        self._records = records
        self._dead: asyncio.Future[None] | None = None

    def to_state(self) -> dict[str, Any]:
        """The state that ``Fence.adopt`` needs after an engine restart; plain JSON."""
        return {
            "pid": self.pid,
            "start_time": self._start_time,
            "boot_id": boot_id(),
            "writable": str(self.writable),
            "group": self._group.to_state(),
            "kept": self.kept,
        }

    async def wait_dead(self) -> None:
        """Return when the sandbox's first process, and so all of its processes, are gone."""
        if self._dead is None:
            loop = asyncio.get_running_loop()
            self._dead = loop.create_future()
            loop.add_reader(self.pidfd, self._on_dead)
        await asyncio.shield(self._dead)

    def _on_dead(self) -> None:
        asyncio.get_running_loop().remove_reader(self.pidfd)
        if self._dead is not None and not self._dead.done():
            self._dead.set_result(None)

    async def kill(self) -> None:
        """Kill every process of the sandbox, wait until they are gone, drop its control group."""
        with contextlib.suppress(ProcessLookupError):
            # A keeper must live until it has ended everything else.
            ending = signal.SIGTERM if self.kept else signal.SIGKILL
            signal.pidfd_send_signal(self.pidfd, ending)
        await self._group.release_frozen()
        await self.wait_dead()
        await self._group.remove()
        if self._records is not None:
            await asyncio.to_thread(self._records.remove, self.sandbox_id)

    def attach(self) -> None:
        """Put the first process into the groups that clone could not; blocks some milliseconds."""
        self._group.attach(self.pid)

    async def freeze(self) -> None:
        """Stop every process of the sandbox where it is.

        Raises ``UnimplementedError`` where there is no freezer; the agent must do it then.
        """
        if self.kept:
            await asyncio.to_thread(descendants.stop, self.pid)
        else:
            await self._group.freeze()

    async def thaw(self) -> None:
        """Thaw a frozen sandbox. Raises ``UnimplementedError`` like ``freeze``."""
        if self.kept:
            await asyncio.to_thread(descendants.go_on, self.pid)
        else:
            await self._group.thaw()

    def usage(self) -> Usage | None:
        """The sandbox's current resource use; ``None`` without control groups (ask the agent)."""
        return self._group.usage() or (descendants.usage(self.pid) if self.kept else None)

    def work_ns(self) -> int | None:
        """Processor time of the whole sandbox so far, with its agent, in nanoseconds.

        Two equal results mean that no process ran in between. ``None`` without control groups.
        Reads one small file of the kernel.
        """
        return self._group.work_ns()

    @property
    def together(self) -> tuple[str, SandboxGroup]:
        """The group above, whose ``work_ns`` counts all sandboxes of the engine; and its name."""
        if self._together is None:
            group = self._group.parent()
            self._together = repr(sorted(group.to_state().items())), group
        return self._together

    @property
    def holds_memory(self) -> bool:
        """Whether a control group holds the sandbox to its memory."""
        return self._group.holds_memory

    def tcp_bytes(self) -> int | None:
        """Memory of TCP that no memory limit counts; ``None`` where there is none such."""
        return self._group.tcp_bytes()

    def members(self) -> list[int]:
        """The processes of the sandbox but its agent, by their ids outside; blocking."""
        return descendants.members(self.pid, kept=self.kept)

    def end_process(self, pid: int) -> str:
        """Kill one process of the sandbox, blocking; gives its name, or ``""`` if it is of none."""
        return processes.kill(pid) if pid in self.members() else ""

    def memory(self, *, exact: bool) -> dict[int, Memory]:
        """The memory of each process; blocking. ``exact``: shared pages count in parts."""
        look = processes.exact_memory if exact else processes.memory
        return {pid: look(pid) for pid in self.members()}

    def count_disk(self) -> int | None:
        """Bytes on the disk of what the sandbox wrote; blocking, ``None`` when it is unknown.

        Counting a big tree in this process would hold the interpreter lock, and ``du`` is safe
        against directories that are replaced by links meanwhile.
        """
        try:
            done = subprocess.run(
                ["du", "-sxB1", "--", str(self.writable / "upper")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_COUNT_TIMEOUT,
                check=False,
            )
            return int(done.stdout.split(maxsplit=1)[0])
        except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
            _log.info("the disk usage of %s is unknown: %s", self.sandbox_id, error)
            return None

    def oom_kills(self) -> int:
        """How often the kernel killed a process of the sandbox for its memory limit."""
        return self._group.oom_kills()

    def close(self) -> None:
        """Drop the pidfd and leave the sandbox alone."""
        if self.pidfd >= 0:
            if self._dead is not None and not self._dead.done():
                asyncio.get_running_loop().remove_reader(self.pidfd)
                self._dead.cancel()
            os.close(self.pidfd)
            self.pidfd = -1
