"""Terminals in a sandbox; output is numbered, so that none is lost with a broken connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sbx_jupyter.client.cleanup import finish_or_undo
from sbx_jupyter.client.processes.commands import INPUT_PIECE, started_pid
from sbx_jupyter.errors import NotFoundError, UnavailableError
from sbx_jupyter.protocol.access import REPLAY_FROM_HEADER
from sbx_jupyter.protocol.runtime import (
    ConnectRequest,
    Empty,
    EndEvent,
    ProcessConfig,
    ProcessEventResponse,
    ProcessInput,
    ProcessSelector,
    Pty,
    PtySize,
    SendInputRequest,
    SendSignalRequest,
    StartRequest,
    StreamInputData,
    StreamInputRequest,
    StreamInputStart,
    UpdateRequest,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from sbx_jupyter.client.api.runtime import MessageStream, RuntimeClient

SHELL: Final = ("/bin/bash", "-i", "-l")
TERMINAL_ENVS: Final = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


class PtyOutput(NamedTuple):
    """Output of a terminal, and the number of bytes that it had produced before."""

    chunk: bytes
    sequence: int


class Ptys:
    """The terminals of one sandbox."""

    def __init__(self, runtime: RuntimeClient) -> None:
        self._runtime = runtime

    async def create(
        self,
        cols: int = 80,
        rows: int = 24,
        *,
        command: Sequence[str] = SHELL,
        user: str | None = None,
        cwd: str | None = None,
        envs: Mapping[str, str] | None = None,
        timeout: float | None = None,
        tag: str | None = None,
    ) -> PtyHandle:
        """Start a login shell in a terminal; it runs until it exits or ``timeout`` passes.

        When this call is cancelled, the shell is killed that was started meanwhile.
        """
        config = ProcessConfig(
            cmd=command[0], args=list(command[1:]), envs=TERMINAL_ENVS | dict(envs or {}), cwd=cwd
        )
        request = StartRequest(process=config, pty=Pty(size=PtySize(cols=cols, rows=rows)), tag=tag)
        return await finish_or_undo(self._start(request, user, timeout), PtyHandle.abandon)

    async def _start(
        self, request: StartRequest, user: str | None, timeout: float | None
    ) -> PtyHandle:
        stream = await self._runtime.stream(
            "process.Process/Start",
            request,
            ProcessEventResponse,
            user=user,
            deadline=timeout,
            headers={REPLAY_FROM_HEADER: "0"},
        )
        return PtyHandle(self._runtime, stream, await started_pid(stream), 0)

    async def connect(self, pid: int, *, replay_from: int | None = None) -> PtyHandle:
        """Attach to a running terminal.

        With ``replay_from``, output from that sequence number on (or the oldest that is kept) comes
        first. Raises ``NotFoundError`` when there is no such process.
        """
        headers = {} if replay_from is None else {REPLAY_FROM_HEADER: str(replay_from)}
        request = ConnectRequest(process=ProcessSelector(pid=pid))
        stream = await self._runtime.stream(
            "process.Process/Connect", request, ProcessEventResponse, headers=headers
        )
        return PtyHandle(self._runtime, stream, await started_pid(stream), replay_from or 0)

    async def send_stdin(self, pid: int, keys: bytes | str) -> None:
        """Type into a terminal; waits while the program in it does not read its input."""
        raw = memoryview(keys.encode() if isinstance(keys, str) else keys)
        for start in range(0, len(raw), INPUT_PIECE):
            request = SendInputRequest(
                process=ProcessSelector(pid=pid),
                input=ProcessInput(pty=bytes(raw[start : start + INPUT_PIECE])),
            )
            await self._runtime.call("process.Process/SendInput", request, Empty, timeout=0)

    async def resize(self, pid: int, cols: int, rows: int) -> None:
        """Set the size of a terminal in characters."""
        request = UpdateRequest(
            process=ProcessSelector(pid=pid), pty=Pty(size=PtySize(cols=cols, rows=rows))
        )
        await self._runtime.call("process.Process/Update", request, Empty)

    async def kill(self, pid: int) -> bool:
        """Kill the shell of a terminal; false when it has ended."""
        request = SendSignalRequest(process=ProcessSelector(pid=pid), signal="SIGNAL_SIGKILL")
        try:
            await self._runtime.call("process.Process/SendSignal", request, Empty)
        except NotFoundError:
            return False
        return True


class PtyHandle:
    """One attached terminal: an asynchronous iterator of ``PtyOutput``.

    Iteration stops when the shell ends (see ``end``), and raises ``UnavailableError`` when the
    connection breaks; ``Ptys.connect(pid, replay_from=next_sequence)`` then continues.
    """

    def __init__(
        self,
        runtime: RuntimeClient,
        stream: MessageStream[ProcessEventResponse],
        pid: int,
        sequence: int,
    ) -> None:
        self.pid = pid
        self.end: EndEvent | None = None
        self.next_sequence = sequence
        self._runtime = runtime
        self._stream = stream

    def __repr__(self) -> str:
        return f"PtyHandle(pid={self.pid})"

    def __aiter__(self) -> PtyHandle:
        return self

    async def __anext__(self) -> PtyOutput:
        if (output := await self.receive()) is None:
            raise StopAsyncIteration
        return output

    async def __aenter__(self) -> PtyHandle:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    async def receive(self) -> PtyOutput | None:
        """Return the next piece of output, ``None`` when the shell has ended."""
        while self.end is None:
            try:
                event = (await anext(self._stream)).event
            except StopAsyncIteration:
                raise UnavailableError("the terminal's stream ended without an end") from None
            if event.end is not None:
                self.end = event.end
                await self._stream.aclose()
            elif event.data is not None and event.data.pty:
                sequence = self.next_sequence if event.sequence is None else event.sequence
                self.next_sequence = sequence + len(event.data.pty)
                return PtyOutput(event.data.pty, sequence)
        return None

    async def wait(self) -> int:
        """Read and drop output until the shell ends; return its exit code."""
        while await self.receive() is not None:
            pass
        return 0 if self.end is None else self.end.exit_code

    async def send(self, keys: bytes | str) -> None:
        """Type into the terminal; waits while the program in it does not read its input."""
        await Ptys(self._runtime).send_stdin(self.pid, keys)

    @property
    def is_local(self) -> bool:
        """Whether the sandbox is reached on this machine, so that no proxy is on the way."""
        return self._runtime.is_local

    async def send_all(self, keys: AsyncIterator[bytes]) -> None:
        """Type what comes, by one request for all; an empty piece keeps it open.

        Errors of the sandbox are raised when ``keys`` ends, or when the connection breaks. Some
        proxies pass on the body of a request only when it is complete (interface 3.5).
        """

        async def requests() -> AsyncIterator[StreamInputRequest]:
            yield StreamInputRequest(start=StreamInputStart(process=ProcessSelector(pid=self.pid)))
            async for piece in keys:
                if piece:
                    data = StreamInputData(input=ProcessInput(pty=piece))
                    yield StreamInputRequest(data=data)
                else:
                    yield StreamInputRequest(keepalive=Empty())

        await self._runtime.upload("process.Process/StreamInput", requests())

    async def resize(self, cols: int, rows: int) -> None:
        """Set the size of the terminal in characters."""
        await Ptys(self._runtime).resize(self.pid, cols, rows)

    async def kill(self) -> bool:
        """Kill the shell; false when it has ended."""
        return await Ptys(self._runtime).kill(self.pid)

    async def disconnect(self) -> None:
        """Close the connection; the shell keeps running."""
        await self._stream.aclose()

    async def abandon(self) -> None:
        """Kill the shell and close the connection."""
        try:
            await self.kill()
        finally:
            await self.disconnect()
