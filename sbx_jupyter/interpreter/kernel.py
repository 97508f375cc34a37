"""One running kernel: its process, its channels and the messages of the code in flight."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import zmq
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import write_connection_file

from sbx_jupyter.interpreter import events
from sbx_jupyter.interpreter.backlog import Backlog, parts_of
from sbx_jupyter.interpreter.launcher import KernelStartError, read_start_error

if TYPE_CHECKING:
    from jupyter_client.channels import AsyncZMQSocketChannel

    from sbx_jupyter.interpreter.launcher import Launcher

START_TIMEOUT: Final = 300.0
"""Seconds; long, for a busy machine. Clients get signs of life meanwhile."""
_FIRST_PROBE: Final = 0.02
_FIRST_PROBE_OF_BOUND: Final = 1.0
"""Seconds for the first answer of a kernel whose sockets are there: no question to it is lost, and
each further one costs it 2 ms."""
_SOCKET_POLL: Final = 0.001
_AT_ONCE: Final = 16
"""Messages that are received before something else has its turn: more than others take in one."""
_LONGEST_FOLDER: Final = 96
"""Bytes; in a longer one, sockets have no room for their names."""

Message = dict[str, Any]


class KernelDiedError(Exception):
    """The kernel's process is gone."""


class Kernel:
    """A kernel that answers. Make one with ``start``."""

    def __init__(self, folder: Path, client: AsyncKernelClient) -> None:
        self.pid = 0
        self.died = asyncio.Event()
        self.has_replied = False
        """Whether the code that was sent last has ended; its last messages may follow."""
        self._folder = folder
        self._client = client
        self._is_bound = False
        self._backlog = Backlog(self._decoded)
        self._listening_to: str | None = None
        self._replies: dict[str, asyncio.Future[Message]] = {}
        self._pumps: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, launcher: Launcher, language: str, cwd: str) -> Kernel:
        """Start a kernel and wait until it answers. Raises ``KernelStartError``."""
        folder = Path(tempfile.mkdtemp(prefix="kernel-"))
        file = str(folder / "connection.json")
        if len(os.fsencode(folder)) <= _LONGEST_FOLDER:
            write_connection_file(fname=file, transport="ipc", ip=str(folder / "k"))
        else:
            write_connection_file(fname=file, transport="tcp", ip="127.0.0.1")
        client = AsyncKernelClient()
        client.load_connection_file(file)
        kernel = cls(folder, client)
        try:
            kernel.pid = await launcher.start(language, file, cwd, kernel._note_death)
            async with asyncio.timeout(START_TIMEOUT):
                await kernel._bound()
                kernel._open_channels()
                await kernel._handshake()
        except TimeoutError as error:
            await kernel.aclose()
            raise KernelStartError(f"the {language} kernel does not answer") from error
        except KernelDiedError as error:
            reason = read_start_error(file)
            await kernel.aclose()
            raise KernelStartError(f"the {language} kernel ended at once{reason}") from error
        except BaseException:
            await kernel.aclose()
            raise
        return kernel

    def execute(self, code: str) -> str:
        """Send code; its messages are then given by ``receive``, until the kernel is idle."""
        self._backlog = Backlog(self._decoded)
        if self.died.is_set():
            self._backlog.close()
        self.has_replied = False
        # No request waits for this one, which an error would have to stop.
        self._listening_to = self._sent(
            self._client.execute(code, allow_stdin=False, stop_on_error=False)
        )
        return self._listening_to

    async def receive(self) -> Message:
        """The next message of the execution. Raises ``KernelDiedError`` after the last."""
        try:
            return await self._backlog.take()
        except EOFError:
            raise KernelDiedError from None

    async def run_silently(self, code: str, timeout: float = 10) -> None:
        """Run code that shows nothing and counts as nothing. Raises ``KernelDiedError``."""
        message_id = self._client.execute(code, silent=True, store_history=False, allow_stdin=False)
        await self._reply(self._sent(message_id), timeout)

    def interrupt(self) -> None:
        """Interrupt the running code, and the programs it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGINT)

    async def aclose(self) -> None:
        """Kill the kernel and all that it started, and close the channels."""
        if self.pid and not self.died.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await self.died.wait()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        if self._pumps:
            self._client.stop_channels()
        for left in self._folder.iterdir():
            left.unlink(missing_ok=True)
        self._folder.rmdir()

    def _note_death(self) -> None:
        self.died.set()
        self._backlog.close()

    async def _bound(self) -> None:
        """Wait for the kernel's sockets: connecting too early costs ZeroMQ's retry, 0.1 s."""
        if self._client.transport != "ipc":
            return
        ports = (self._client.shell_port, self._client.iopub_port, self._client.control_port)
        missing = [Path(f"{self._client.ip}-{port}") for port in ports]
        while missing := [path for path in missing if not path.exists()]:
            if self.died.is_set():
                raise KernelDiedError
            await asyncio.sleep(_SOCKET_POLL)
        self._is_bound = True

    def _open_channels(self) -> None:
        self._client.start_channels(stdin=False, hb=False)
        loop = asyncio.get_running_loop()
        self._pumps = [
            loop.create_task(self._pump_output()),
            loop.create_task(self._pump_replies()),
        ]

    async def _handshake(self) -> None:
        """Ask until the kernel answers and its output has reached us: it may bind after we ask."""
        output_wait = _FIRST_PROBE
        reply_wait = _FIRST_PROBE_OF_BOUND if self._is_bound else _FIRST_PROBE
        while True:
            self._listening_to = None
            message_id = self._listening_to = self._ask()
            try:
                await self._reply(message_id, reply_wait)
            except TimeoutError:
                # Without a bound: on a busy machine, each reply could come after the longest wait.
                reply_wait *= 2
                continue
            with contextlib.suppress(TimeoutError):
                # The subscription is alive when the status of that very request arrives.
                async with asyncio.timeout(output_wait):
                    await self.receive()
                return
            output_wait *= 2

    def _ask(self) -> str:
        """Send a question; the id of the reply's request."""
        return self._sent(self._client.kernel_info())

    def _sent(self, message_id: str) -> str:
        """Have the replies read of which a send took notice.

        jupyter_client sends past the socket of asyncio, which nothing wakes then for what arrived
        just before, nor for any later reply.
        """
        channel: Any = self._client.shell_channel
        channel.socket.get(zmq.EVENTS)
        return message_id

    async def _reply(self, message_id: str, timeout: float) -> Message:
        replied: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._replies[message_id] = replied
        dying = asyncio.ensure_future(self.died.wait())
        try:
            await asyncio.wait(
                (replied, dying), timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if replied.done():
                return replied.result()
            raise KernelDiedError if self.died.is_set() else TimeoutError
        finally:
            dying.cancel()
            del self._replies[message_id]

    async def _pump_output(self) -> None:
        channel: Any = self._client.iopub_channel.socket
        while True:
            for _ in range(_AT_ONCE):
                frames: list[bytes] = await channel.recv_multipart()
                # Code can send anything as its kernel, and the kernel's channels go on.
                with contextlib.suppress(ValueError):
                    if self._listening_to and self._listening_to.encode() in parts_of(frames)[1]:
                        self._backlog.add(frames)
            # Messages that are there already are received without a wait.
            await asyncio.sleep(0)

    def _decoded(self, frames: list[bytes]) -> Message | None:
        """The message of frames; ``None`` for one that is malformed or about another request."""
        try:
            _, parts = self._client.session.feed_identities(frames)
            message = self._client.session.deserialize(parts)
            is_ours = _request_of(message) == self._listening_to and events.is_sound(message)
        except Exception:
            return None  # whatever code sends as its kernel, the next message is read
        return message if is_ours else None

    async def _pump_replies(self) -> None:
        while True:
            message = await _next_of(self._client.shell_channel)
            message_id = _request_of(message)
            if message_id == self._listening_to:
                self.has_replied = True
            replied = self._replies.get(message_id)
            if replied is not None and not replied.done():
                replied.set_result(message)


async def _next_of(channel: AsyncZMQSocketChannel) -> Message:
    """The channel's next message that is one; jupyter_client gives up when woken for nothing."""
    while True:
        try:
            return await channel.get_msg(timeout=None)
        except queue.Empty:
            pass
        except zmq.ZMQError:
            raise
        except Exception:
            # Code can send anything as its kernel, and the kernel's channels go on.
            continue


def _request_of(message: Message) -> str:
    """The id of the request that a message is about; nothing if it names none."""
    parent: Any = message["parent_header"]
    found = cast("Message", parent).get("msg_id") if isinstance(parent, dict) else None
    return found if isinstance(found, str) else ""
