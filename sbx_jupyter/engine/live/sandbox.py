"""One running sandbox: the channel to its agent, and everything that uses the channel."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.engine.live import descriptors
from sbx_jupyter.engine.live.agent import convert_body
from sbx_jupyter.engine.live.files import Files
from sbx_jupyter.engine.live.interpreter import Interpreter
from sbx_jupyter.engine.live.metrics import MetricsReader
from sbx_jupyter.engine.live.ports import Ports
from sbx_jupyter.engine.live.processes import KnownProcess, Processes
from sbx_jupyter.engine.live.subscriptions import DisconnectedError
from sbx_jupyter.engine.live.watchers import Watchers
from sbx_jupyter.errors import SbxError, UnavailableError
from sbx_jupyter.isolation.channel import Channel
from sbx_jupyter.protocol import agent as ops
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT, PROXY_PORT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sbx_jupyter.engine.live.listeners import Listener
    from sbx_jupyter.engine.live.process import ProcessSettings
    from sbx_jupyter.isolation.channel import Reply
    from sbx_jupyter.isolation.fence import Cage
    from sbx_jupyter.isolation.fence_spec import Limits
    from sbx_jupyter.protocol.runtime import Reading

_log = logging.getLogger(__name__)

SOCKET_NAME: Final = "agent.sock"
_AGENT_VERSION: Final = 2
_PRIVATE_FOLDER: Final = "/var/tmp"
"""A folder that belongs to the sandbox also where nothing is mounted."""
_HELLO_TIMEOUT: Final = 15.0
_CONNECT_TIMEOUT: Final = 5.0
_CONNECT_RETRY: Final = 0.01
_MAX_STATUS: Final = 255


class _Hello(msgspec.Struct, frozen=True):
    version: int
    processes: list[KnownProcess] = []
    loopback: bool = False


class Sandbox:
    """A running sandbox whose agent is connected: its files, processes, watchers and ports.

    A ``Cage`` isolates its processes. ``Placed`` pairs the two, and the ``Slot`` of the sandbox
    holds that pair while there are processes.

    The agent is not trusted: its replies and descriptors are checked, and every call to it has a
    time limit.
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
        self.unnamed_disk_bytes = 0
        """Bytes of files without a name, as last counted by the watchdog."""
        self.unseen_memory_bytes = 0
        """Memory that no address space shows, as last counted by the watchdog."""
        self.closed = asyncio.Event()
        self.files = Files(self)
        self.processes = Processes(self, run_dir, process_settings)
        self._interpreter = Interpreter(self.files, self.processes, lambda: self.envs)
        self.watchers = Watchers(self)
        self._ports = Ports(self)
        self._metrics = MetricsReader(
            self,
            cage,
            limits,
            hidden=self._read_hidden,
            is_written=lambda: self.files.is_written,
        )
        self._run_dir = run_dir
        self._channel: Channel | None = None

    async def open(self, *, envs: dict[str, str], default_user: str, default_cwd: str) -> None:
        """Connect to the agent, set the defaults and adopt the processes that run already.

        Raises ``UnavailableError`` when the agent does not answer.
        """
        sock = await _connect(self._run_dir)
        self._channel = Channel(sock, on_event=self._on_event, on_close=self._on_close)
        try:
            hello = await self._greet()
            self._ports.are_kept = hello.loopback
            if self.cage.kept:  # without namespaces
                self._interpreter.folder = _PRIVATE_FOLDER
                self._interpreter.python = sys.executable
                self._interpreter.shares_ports = not hello.loopback
            await self.configure(envs=envs, default_user=default_user, default_cwd=default_cwd)
            await self.processes.adopt(hello.processes)
            await self._metrics.start()
        except BaseException:
            self.detach()
            raise

    async def configure(self, *, envs: dict[str, str], default_user: str, default_cwd: str) -> None:
        """Set the environment, user and directory that new processes get by default."""
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
        """Call the agent; raises the error that it names, or ``UnavailableError``."""
        if self._channel is None or self.closed.is_set():
            raise UnavailableError("the sandbox is not running")
        return await self._channel.call(op, fds=fds, timeout=timeout, **fields)

    async def read_metrics(self) -> Reading:
        """Measure what the sandbox uses (interface 4.3)."""
        return await self._metrics.read()

    def note_idle(self) -> None:
        """Note for the next reading that no process has run since the last one."""
        self._metrics.note_idle()

    def _read_hidden(self) -> tuple[int, int]:
        return self.unseen_memory_bytes, self.unnamed_disk_bytes

    async def connect_port(self, port: int) -> socket.socket:
        """Connect to a port inside; the socket does not block.

        Raises ``UnavailableError`` when nothing listens there, and for the port of the egress
        proxy: from outside, it would be a proxy for everybody.
        """
        if port == PROXY_PORT:
            raise UnavailableError("port is not open")
        if port == INTERPRETER_PORT:
            own = self._interpreter.port
            if own is None:
                raise UnavailableError("port is not open")
            port = own
        return await self._ports.connect(port)

    async def prepare_port(self, port: int) -> None:
        """Listen on 127.0.0.1 inside ahead of the ``listen_port`` of this port."""
        await self._ports.prepare(port)

    async def listen_port(self, port: int) -> Listener:
        """Listen on 127.0.0.1 inside the sandbox.

        Port 0 takes any free port, where the sandbox has a network namespace.
        """
        return await self._ports.listen(port)

    @property
    def has_kept_ports(self) -> bool:
        """Whether its loopback interface is its keeper, and not one of the kernel."""
        return self._ports.are_kept

    async def kept_ports(self) -> set[int]:
        """The ports on which programs listen, where ``has_kept_ports``.

        Raises ``UnavailableError``.
        """
        return await self._ports.listening()

    async def network_socket(self) -> socket.socket:
        """An unconnected socket of the sandbox's network namespace."""
        return await self._ports.take()

    async def start_interpreter(self) -> None:
        """Return when the code interpreter listens inside; raises ``UnavailableError``."""
        await self._interpreter.start()

    def disconnect(self) -> None:
        """End all streams and connections, before a pause with memory; see ``resume``."""
        error = DisconnectedError("the sandbox was paused")
        self.processes.disconnect(error)
        self.watchers.disconnect(error)
        self._ports.disconnect(error)

    def resume(self) -> None:
        """Continue after a pause: time limits run again from where they stopped."""
        self.processes.resume()
        self.watchers.resume()
        self._ports.resume()

    def detach(self) -> None:
        """Disconnect without stopping the sandbox, which the next engine can adopt."""
        self._close(UnavailableError("the engine is shutting down"))

    async def aclose(self) -> None:
        """End all subscriptions with ``UnavailableError`` and close every descriptor."""
        self._close(UnavailableError("the sandbox is not running any more"))

    async def _greet(self) -> _Hello:
        reply = await self.call(ops.HELLO, timeout=_HELLO_TIMEOUT)
        descriptors.close_all(reply.fds)
        hello = convert_body(reply.body, _Hello)
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
        self._interpreter.abandon()
        self.processes.abandon(reason)
        self.watchers.abandon(reason)
        self._ports.close()
        self._metrics.close()
        if self._channel is not None:
            self._channel.close()


async def _connect(run_dir: Path) -> socket.socket:
    """Connect to the agent's socket, whose path may be too long for an address."""
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
