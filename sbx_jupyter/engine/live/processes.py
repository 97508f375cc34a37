"""The processes of one sandbox that were started through the API (interface 3.5)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import time
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.engine.live import descriptors
from sbx_jupyter.engine.live.pipes import PipeThread
from sbx_jupyter.engine.live.process import Process, ProcessSettings, check_size
from sbx_jupyter.engine.live.scrollback import Scrollback
from sbx_jupyter.engine.tasks import BackgroundTasks
from sbx_jupyter.errors import InternalError, NotFoundError, SbxError, UnavailableError
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol.runtime import ProcessConfig, ProcessInfo, ProcessSelector, StartRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sbx_jupyter.engine.live.agent import AgentCaller

_log = logging.getLogger(__name__)

_START_TIMEOUT: Final = 30.0
_UNRELEASED_LIMIT: Final = 32
"""Ended processes that the agent keeps, so that a restarted engine can read their ends. Each costs
the agent up to three descriptors."""


class KnownProcess(msgspec.Struct, frozen=True):
    """A process that the agent started for an earlier engine."""

    pid: int
    cmd: str = ""
    args: list[str] = []
    envs: dict[str, str] = {}
    cwd: str | None = None
    tag: str | None = None
    stdin: bool = False
    pty: tuple[int, int] | None = None
    deadline: float | None = None
    status: int | None = None


class Processes:
    """Starts, finds and lists the processes of one sandbox."""

    def __init__(
        self,
        agent: AgentCaller,
        run_dir: Path,
        settings: ProcessSettings | None = None,
    ) -> None:
        self._agent = agent
        self._scrollback_dir = run_dir / "scrollback"
        self._settings = settings or ProcessSettings()
        self._running: dict[int, Process] = {}
        self._ended: dict[int, Process] = {}
        self._unreleased: dict[int, None] = {}
        self._timers: dict[Process, asyncio.TimerHandle] = {}
        self._time_left: dict[Process, float] = {}
        """Seconds left of processes with a time limit, while the sandbox is paused."""
        self._starting = 1  # the agent may report exits from its first message on, until adopt()
        self._early_exits: dict[int, int] = {}
        self._tasks = BackgroundTasks()
        self._closed_by: SbxError | None = None
        self._disconnected_by: SbxError | None = None
        self._end_callbacks: dict[str, Callable[[], None]] = {}
        self._pipes = PipeThread()

    def call_at_end(self, tag: str, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever a process with this tag has ended in a running sandbox."""
        self._end_callbacks[tag] = callback

    async def start(
        self, request: StartRequest, *, user: str | None = None, timeout: float | None = None
    ) -> Process:
        """Start a process that is killed after ``timeout`` seconds, if that is given.

        Its output is held for a moment until ``Process.subscribe``. The process starts even if the
        caller is cancelled meanwhile. Raises
        ``InvalidArgumentError`` for a bad directory, terminal size or user.
        """
        if request.pty is not None:
            check_size(request.pty.size)
        # Shielded: if nobody took the reply, the process would run without being listed.
        return await self._tasks.complete(self._start(request, user, timeout))

    def select(self, selector: ProcessSelector, *, ended: bool = False) -> Process:
        """The process with this pid, or the first running one with this tag.

        With ``ended`` also one that ended a short time ago. Raises ``NotFoundError``.
        """
        pools = (self._running, self._ended) if ended else (self._running,)
        if selector.pid is not None:
            for pool in pools:
                if (found := pool.get(selector.pid)) is not None:
                    return found
            raise NotFoundError(f"process with pid {selector.pid} not found")
        for pool in pools:
            for process in pool.values():
                if process.tag is not None and process.tag == selector.tag:
                    return process
        raise NotFoundError(f"process with tag {selector.tag or ''} not found")

    def list(self) -> list[ProcessInfo]:
        """The running processes, oldest first."""
        return [process.info for process in self._running.values()]

    async def adopt(self, known: list[KnownProcess]) -> None:
        """Take over the processes that an earlier engine started; called once."""
        try:
            for entry in known:
                try:
                    await self._adopt(entry)
                except SbxError as error:
                    _log.warning("process %d is not adopted: %s", entry.pid, error)
        finally:
            self._started()
        self._remove_stale_files()

    async def forget(self, process: Process) -> None:
        """Keep nothing of a process that has ended, in the agent neither."""
        pid = process.pid
        if self._ended.get(pid) is process:
            await self._release(pid)
            self._forget(process)

    def exited(self, pid: int, status: int) -> None:
        """The agent reports an exit: the code, or minus the signal."""
        if (process := self._running.get(pid)) is not None:
            process.exited(status)
        elif self._starting:
            # The report can arrive before the task that waits for the reply of ``start`` runs.
            self._early_exits[pid] = status

    def disconnect(self, error: SbxError) -> None:
        """End every subscription with ``error`` and stop time limits; the processes stay.

        New subscriptions end too, and time limits wait, until ``resume``.
        """
        self._disconnected_by = error
        for process in self._ended.values():
            process.disconnect(error)
        for process in self._running.values():
            self._disconnect_running(process, error)

    def _disconnect_running(self, process: Process, error: SbxError) -> None:
        process.disconnect(error)
        if (timer := self._timers.pop(process, None)) is not None:
            timer.cancel()
            now = asyncio.get_running_loop().time()
            self._time_left[process] = max(0.0, timer.when() - now)

    def resume(self) -> None:
        """Continue time limits where they stopped, and allow subscriptions to processes again."""
        self._disconnected_by = None
        left, self._time_left = self._time_left, {}
        for process, seconds in left.items():
            if not process.has_ended:
                self._call_later(process, seconds, self._expire)

    def abandon(self, error: SbxError) -> None:
        """End every subscription with ``error`` and drop all descriptors and timers."""
        self._closed_by = error
        self._pipes.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._time_left.clear()
        for process in (*self._running.values(), *self._ended.values()):
            process.abandon(error)
        self._running.clear()
        self._ended.clear()
        self._tasks.cancel()

    async def _start(
        self, request: StartRequest, user: str | None, timeout: float | None
    ) -> Process:
        config = request.process
        has_stdin = request.pty is None and request.stdin is not False
        pty = request.pty.size if request.pty is not None else None
        self._starting += 1
        try:
            reply = await self._agent.call(
                ops.START,
                timeout=_START_TIMEOUT,
                cmd=config.cmd,
                args=config.args,
                envs=config.envs,
                cwd=config.cwd,
                user=user,
                tag=request.tag,
                stdin=has_stdin,
                pty=[pty.cols, pty.rows] if pty is not None else None,
                deadline=time.monotonic() + timeout if timeout else None,
            )
            pid = reply.body.get("pid")
            if not isinstance(pid, int) or pid <= 0:
                descriptors.close_all(reply.fds)
                raise InternalError("the sandbox answered without a pid")
            process = self._make(pid, config, request.tag)
            self._attach(process, reply.fds, has_stdin, pty is not None, adopted=False)
            if timeout:
                self._call_later(process, timeout, self._expire)
            self._enter(process)
        finally:
            self._started()
        return process

    async def _adopt(self, known: KnownProcess) -> None:
        reply = await self._agent.call(ops.ADOPT, pid=known.pid)
        config = ProcessConfig(cmd=known.cmd, args=known.args, envs=known.envs, cwd=known.cwd)
        process = self._make(known.pid, config, known.tag)
        has_stdin = known.stdin and known.pty is None
        self._attach(process, reply.fds, has_stdin, known.pty is not None, adopted=True)
        self._enter(process)
        if known.status is not None:
            process.exited(known.status)
        if known.deadline is not None and not process.has_ended:
            left = max(0.0, known.deadline - time.monotonic())
            self._call_later(process, left, self._expire)

    def _make(self, pid: int, config: ProcessConfig, tag: str | None) -> Process:
        return Process(
            self._agent,
            pid,
            config,
            tag=tag,
            settings=self._settings,
            on_end=self._on_end,
            disconnection=lambda: self._closed_by or self._disconnected_by,
        )

    def _attach(
        self, process: Process, fds: list[int], has_stdin: bool, is_pty: bool, *, adopted: bool
    ) -> None:
        """Check the descriptors and give them to the process; raises ``InternalError``."""
        settings = self._settings
        hold = settings.adoption_hold if adopted else settings.start_hold
        if is_pty:
            (master,) = descriptors.take(fds, descriptors.is_pty_master)
            make = Scrollback.open if adopted else Scrollback.create
            path = self._scrollback_dir / str(process.pid)
            try:
                scrollback = _make_scrollback(make, path, settings.scrollback_size)
                stdin = os.dup(master)
            except OSError as error:
                os.close(master)
                raise InternalError(f"the terminal cannot be kept: {error.strerror}") from error
            process.attach_terminal(master, stdin, scrollback, hold)
            return
        count = 3 if has_stdin else 2
        stdout, stderr, *stdin = descriptors.take(fds, *[descriptors.is_pipe] * count)
        outputs = {"stdout": stdout, "stderr": stderr}
        process.attach_pipes(outputs, stdin[0] if stdin else None, self._pipes, hold)

    def _enter(self, process: Process) -> None:
        if self._closed_by is not None:
            process.abandon(self._closed_by)
            raise UnavailableError(self._closed_by.message)
        # Pids are reused; the agent then knows only the new process.
        if (old := self._ended.get(process.pid)) is not None:
            self._unreleased.pop(process.pid, None)
            self._forget(old)
        self._running[process.pid] = process
        if self._disconnected_by is not None:  # the sandbox was paused since the answer was sent
            self._disconnect_running(process, self._disconnected_by)
        if (status := self._early_exits.pop(process.pid, None)) is not None:
            process.exited(status)

    def _started(self) -> None:
        self._starting -= 1
        if not self._starting:
            self._early_exits.clear()

    def _expire(self, process: Process) -> None:
        self._timers.pop(process, None)
        self._tasks.spawn(process.expire())

    def _on_end(self, process: Process) -> None:
        self._running.pop(process.pid, None)
        if (callback := self._end_callbacks.get(process.tag or "")) is not None:
            callback()
        self._ended[process.pid] = process
        self._unreleased[process.pid] = None
        self._call_later(process, self._settings.retention, self._forget)
        if len(self._unreleased) > _UNRELEASED_LIMIT:
            self._tasks.spawn(self._release(next(iter(self._unreleased))))

    def _forget(self, process: Process) -> None:
        if (timer := self._timers.pop(process, None)) is not None:
            timer.cancel()
        if self._ended.get(process.pid) is process:
            del self._ended[process.pid]
        process.forget()
        if process.pid in self._unreleased:
            self._tasks.spawn(self._release(process.pid))

    async def _release(self, pid: int) -> None:
        if pid in self._unreleased:
            del self._unreleased[pid]
            with contextlib.suppress(NotFoundError):
                await self._agent.call(ops.RELEASE, pid=pid)

    def _call_later(
        self, process: Process, delay: float, callback: Callable[[Process], object]
    ) -> None:
        if (timer := self._timers.pop(process, None)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[process] = loop.call_later(delay, callback, process)

    def _remove_stale_files(self) -> None:
        """Delete the scrollback files of processes that no longer exist."""
        with contextlib.suppress(FileNotFoundError):
            for path in self._scrollback_dir.iterdir():
                if not path.name.isdigit() or int(path.name) not in self._running | self._ended:
                    path.unlink(missing_ok=True)


def _make_scrollback(
    make: Callable[[Path, int], Scrollback], path: Path, capacity: int
) -> Scrollback:
    """Make a scrollback; on a full disk, where a terminal is needed to clean up, in memory."""
    try:
        return make(path, capacity)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _log.warning("the scrollback %s is kept in memory: %s", path, error.strerror)
        return Scrollback.in_memory(path, capacity)
