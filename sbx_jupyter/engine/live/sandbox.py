"""One live sandbox: the channel to its agent, and everything that goes through it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.engine.live import descriptors
from sbx_jupyter.engine.live.files import Files
from sbx_jupyter.engine.live.interpreter import Interpreter
from sbx_jupyter.engine.live.metrics import Meter
from sbx_jupyter.engine.live.ports import Ports
from sbx_jupyter.engine.live.processes import KnownProcess, Processes
from sbx_jupyter.engine.live.subscriptions import DisconnectedError
from sbx_jupyter.engine.live.watchers import Watchers
from sbx_jupyter.errors import InternalError, SbxError, UnavailableError
from sbx_jupyter.isolation.channel import Channel
from sbx_jupyter.protocol import agent as ops

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sbx_jupyter.engine.live.process import ProcessSettings
    from sbx_jupyter.isolation.channel import Reply
    from sbx_jupyter.isolation.fence import Cage, Limits
    from sbx_jupyter.protocol.runtime import Reading

_log = logging.getLogger(__name__)

SOCKET_NAME: Final = "agent.sock"
_AGENT_VERSION: Final = 1
_HELLO_TIMEOUT: Final = 15.0
_CONNECT_TIMEOUT: Final = 5.0
_CONNECT_RETRY: Final = 0.01
_MAX_STATUS: Final = 255


class _Hello(msgspec.Struct, frozen=True):
    version: int
    processes: list[KnownProcess] = []


class Sandbox:
    """A running sandbox as the engine sees it.

    The agent inside is not trusted: its answers are checked, its descriptors looked at, and every
    question to it has a time limit.
    """

    def __init__(
        self,
        sandbox_id: str,
        cage: Cage,
        run_dir: Path,
        *,
        limits: Limits,
        process_settings: ProcessSettings | None = None,
    ) -> None:
        self.sandbox_id = sandbox_id
        self.cage = cage
        self.limits = limits
        self.envs: dict[str, str] = {}
        self.default_user = ""
        self.closed = asyncio.Event()
        self.files = Files(self)
        self.processes = Processes(self, run_dir, process_settings, free_agent=cage.free_agent)
        self._interpreter = Interpreter(self.files, self.processes, lambda: self.envs)
        self.watchers = Watchers(self)
        self._ports = Ports(self)
        self._meter = Meter(self, cage, limits)
        self._run_dir = run_dir
        self._channel: Channel | None = None

    async def open(self, *, envs: dict[str, str], default_user: str, default_cwd: str) -> None:
        """Connect to the agent, set the defaults and carry on with processes that run already.

        Raises ``UnavailableError`` when the agent does not answer.
        """
        sock = await _connect(self._run_dir)
        self._channel = Channel(sock, on_event=self._on_event, on_close=self._on_close)
        try:
            hello = await self._greet()
            await self.configure(envs=envs, default_user=default_user, default_cwd=default_cwd)
            await self.processes.adopt(hello.processes)
            await self._meter.start()
        except BaseException:
            self.detach()
            raise

    async def configure(self, *, envs: dict[str, str], default_user: str, default_cwd: str) -> None:
        """Set the environment of all processes to come, and the default user and directory."""
        reply = await self.call(
            ops.CONFIGURE,
            envs=envs,
            default_user=default_user,
            default_cwd=default_cwd,
        )
        descriptors.close_all(reply.fds)
        self.envs = dict(envs)
        self.default_user = default_user
        await self._interpreter.update_envs()

    async def call(
        self, op: str, *, fds: Sequence[int] = (), timeout: float = 30, **fields: Any
    ) -> Reply:
        """Ask the agent; raises the error that it names, or ``UnavailableError``."""
        if self._channel is None or self.closed.is_set():
            raise UnavailableError("the sandbox is not running")
        return await self._channel.call(op, fds=fds, timeout=timeout, **fields)

    async def read_metrics(self) -> Reading:
        """What the sandbox uses now (interface 4.3)."""
        return await self._meter.read()

    async def connect_port(self, port: int) -> socket.socket:
        """A non-blocking connection to a port inside; raises ``UnavailableError`` when nothing
        listens there."""
        return await self._ports.connect(port)

    async def listen_port(self, port: int) -> socket.socket:
        """A listening socket on 127.0.0.1 inside the sandbox; 0 takes any free port."""
        return await self._ports.listen(port)

    async def network_socket(self) -> socket.socket:
        """An unconnected socket of the sandbox's network namespace."""
        return await self._ports.take()

    async def start_interpreter(self) -> None:
        """Return when the code interpreter listens inside; raises ``UnavailableError``."""
        await self._interpreter.start()

    def hang_up(self) -> None:
        """Drop what is connected, as a pause with memory does; the sandbox can be used again."""
        error = DisconnectedError("the sandbox was paused")
        self.processes.hang_up(error)
        self.watchers.hang_up(error)
        self._ports.hang_up()

    def go_on(self) -> None:
        """After a pause: time limits go on from where they stood."""
        self.processes.go_on()

    def detach(self) -> None:
        """Let go of the sandbox without stopping it; another engine can carry on."""
        self._close(UnavailableError("the engine is shutting down"))

    async def aclose(self) -> None:
        """End all subscriptions with ``UnavailableError`` and drop every descriptor."""
        self._close(UnavailableError("the sandbox is not running any more"))

    async def _greet(self) -> _Hello:
        reply = await self.call(ops.HELLO, timeout=_HELLO_TIMEOUT)
        descriptors.close_all(reply.fds)
        try:
            hello = msgspec.convert(reply.body, _Hello)
        except msgspec.ValidationError as error:
            raise InternalError(f"the sandbox gave a malformed answer: {error}") from error
        if hello.version != _AGENT_VERSION:
            raise UnavailableError(f"the agent speaks version {hello.version}")
        return hello

    def _on_event(self, body: dict[str, Any], fds: list[int]) -> None:
        descriptors.close_all(fds)
        if body.get("event") == ops.EVENT_EXIT:
            pid, status = body.get("pid"), body.get("status")
            if isinstance(pid, int) and isinstance(status, int) and abs(status) <= _MAX_STATUS:
                self.processes.exited(pid, status)
        elif body.get("event") == ops.EVENT_FATAL:
            _log.error("sandbox %s failed: %.500s", self.sandbox_id, body.get("message"))

    def _on_close(self) -> None:
        self._close(UnavailableError("the sandbox is not running any more"))

    def _close(self, reason: SbxError) -> None:
        if self.closed.is_set():
            return
        self.closed.set()
        self.processes.abandon(reason)
        self.watchers.abandon(reason)
        self._ports.close()
        self._meter.close()
        if self._channel is not None:
            self._channel.close()


async def _connect(run_dir: Path) -> socket.socket:
    """Connect to the agent's socket, whose path may be longer than an address allows."""
    try:
        folder = os.open(run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UnavailableError(f"the agent of the sandbox cannot be reached: {error}") from error
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            while True:
                try:
                    sock.connect(f"/proc/self/fd/{folder}/{SOCKET_NAME}")
                    return sock
                except BlockingIOError:  # the queue of the listener is full
                    await asyncio.sleep(_CONNECT_RETRY)
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            raise UnavailableError(
                f"the agent of the sandbox cannot be reached: {error}"
            ) from error
        raise
    finally:
        os.close(folder)
