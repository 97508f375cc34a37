"""Commands in a sandbox: run and wait, or run in the background behind a handle."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import shlex
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, overload

from sbx_jupyter.client.cleanup import finish_or_undo, shielded
from sbx_jupyter.client.processes.output import CommandResult, OutputBuffer
from sbx_jupyter.errors import NotFoundError, SbxError, UnavailableError
from sbx_jupyter.protocol.runtime import (
    ConnectRequest,
    Empty,
    EndEvent,
    ListProcessesResponse,
    ProcessConfig,
    ProcessEventResponse,
    ProcessInfo,
    ProcessInput,
    ProcessSelector,
    SendInputRequest,
    SendSignalRequest,
    StartRequest,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from sbx_jupyter.client.api.runtime import MessageStream, RuntimeClient

    Callback = Callable[[str], Awaitable[Any] | Any]

DEFAULT_TIMEOUT: Final = 60.0
INPUT_PIECE: Final = 256 * 1024


class Output(NamedTuple):
    """A piece of what a command printed: ``kind`` is ``stdout`` or ``stderr``."""

    kind: str
    text: str


class Commands:
    """The commands of one sandbox (interface 3.5)."""

    def __init__(self, runtime: RuntimeClient) -> None:
        self._runtime = runtime

    @overload
    async def run(
        self,
        command: str | Sequence[str],
        *,
        background: Literal[False] = False,
        envs: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        stdin: bool = False,
        on_stdout: Callback | None = None,
        on_stderr: Callback | None = None,
    ) -> CommandResult: ...

    @overload
    async def run(
        self,
        command: str | Sequence[str],
        *,
        background: Literal[True],
        envs: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        stdin: bool = False,
        on_stdout: Callback | None = None,
        on_stderr: Callback | None = None,
    ) -> CommandHandle: ...

    async def run(
        self,
        command: str | Sequence[str],
        *,
        background: bool = False,
        envs: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        stdin: bool = False,
        on_stdout: Callback | None = None,
        on_stderr: Callback | None = None,
    ) -> CommandResult | CommandHandle:
        """Run a command in a login shell, or a list of words without a shell's expansions.

        The command is killed after ``timeout`` seconds (``None`` or 0: never), and when a
        foreground ``run`` is cancelled. A failing command is a result, not an exception. Raises
        ``DeadlineExceededError`` when the time ran out, ``InvalidArgumentError`` for a missing
        ``cwd``, ``UnauthenticatedError`` for an unknown user, ``UnavailableError`` when the sandbox
        was stopped.
        """
        handle = await self.start(
            command, envs=envs, cwd=cwd, user=user, timeout=timeout, stdin=stdin
        )
        if background:
            handle.read_on(on_stdout, on_stderr)
            return handle
        async with contextlib.aclosing(handle):
            try:
                return await handle.wait(on_stdout, on_stderr)
            except asyncio.CancelledError:
                with shielded():
                    await handle.kill()
                raise

    async def start(
        self,
        command: str | Sequence[str],
        *,
        envs: Mapping[str, str] | None = None,
        cwd: str | None = None,
        user: str | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        stdin: bool = False,
        tag: str | None = None,
    ) -> CommandHandle:
        """Like ``run(background=True)``, but nothing is read until the caller reads.

        When this call is cancelled, the command is killed that was started meanwhile.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        config = ProcessConfig(
            cmd="/bin/bash", args=["-l", "-c", text], envs=dict(envs or {}), cwd=cwd
        )
        request = StartRequest(process=config, stdin=stdin, tag=tag)
        return await finish_or_undo(self._start(request, user, timeout), CommandHandle.abandon)

    async def _start(
        self, request: StartRequest, user: str | None, timeout: float | None
    ) -> CommandHandle:
        stream = await self._runtime.stream(
            "process.Process/Start", request, ProcessEventResponse, user=user, deadline=timeout
        )
        return await self._handle(stream)

    async def connect(self, pid: int, *, timeout: float | None = None) -> CommandHandle:
        """Attach to a running command and read its output from now on.

        Raises ``NotFoundError``.
        """
        request = ConnectRequest(process=ProcessSelector(pid=pid))
        stream = await self._runtime.stream(
            "process.Process/Connect", request, ProcessEventResponse, deadline=timeout
        )
        return await self._handle(stream)

    async def list(self) -> list[ProcessInfo]:
        """List the running commands and terminals."""
        answer = await self._runtime.call("process.Process/List", Empty(), ListProcessesResponse)
        return answer.processes

    async def kill(self, pid: int) -> bool:
        """Kill a command at once; false when it has ended."""
        return await self.send_signal(pid, "SIGNAL_SIGKILL")

    async def send_signal(self, pid: int, signal: str) -> bool:
        """Send ``SIGNAL_SIGTERM`` or ``SIGNAL_SIGKILL``; false when the process has ended."""
        return await self._signal(ProcessSelector(pid=pid), signal)

    async def _signal(self, process: ProcessSelector, signal: str) -> bool:
        request = SendSignalRequest(process=process, signal=signal)
        try:
            await self._runtime.call("process.Process/SendSignal", request, Empty)
        except NotFoundError:
            return False
        return True

    async def send_stdin(self, pid: int, text: str | bytes) -> None:
        """Write all of ``text`` to a command that was started with ``stdin=True``."""
        raw = memoryview(text.encode() if isinstance(text, str) else text)
        for start in range(0, len(raw), INPUT_PIECE):
            request = SendInputRequest(
                process=ProcessSelector(pid=pid),
                input=ProcessInput(stdin=bytes(raw[start : start + INPUT_PIECE])),
            )
            await self._runtime.call("process.Process/SendInput", request, Empty, timeout=0)

    async def close_stdin(self, pid: int) -> None:
        """Close the command's input, so that it reads end-of-file."""
        request = ConnectRequest(process=ProcessSelector(pid=pid))
        await self._runtime.call("process.Process/CloseStdin", request, Empty)

    async def _handle(self, stream: MessageStream[ProcessEventResponse]) -> CommandHandle:
        return CommandHandle(self, stream, await started_pid(stream))


async def started_pid(stream: MessageStream[ProcessEventResponse]) -> int:
    """Return the pid in the start event; close the stream when that does not come."""
    try:
        async for message in stream:
            if message.event.start is not None:
                return message.event.start.pid
        raise UnavailableError("the process stream ended before it began")
    except BaseException:
        await stream.aclose()
        raise


class CommandHandle:
    """One running command. ``wait`` for its end, or ``disconnect`` and let it run."""

    def __init__(
        self, commands: Commands, stream: MessageStream[ProcessEventResponse], pid: int
    ) -> None:
        self.pid = pid
        self._commands = commands
        self._stream = stream
        self._buffers = {"stdout": OutputBuffer(), "stderr": OutputBuffer()}
        self._end: EndEvent | None = None
        self._reader: asyncio.Task[CommandResult] | None = None

    def __repr__(self) -> str:
        return f"CommandHandle(pid={self.pid})"

    @property
    def stdout(self) -> str:
        """The standard output so far."""
        return self._buffers["stdout"].text

    @property
    def stderr(self) -> str:
        """The standard error so far."""
        return self._buffers["stderr"].text

    @property
    def exit_code(self) -> int | None:
        """``None`` while it runs."""
        return None if self._end is None else self._end.exit_code

    async def receive(self) -> Output | None:
        """Return the next piece of output, ``None`` at the end. Only one call may read at once."""
        while self._end is None:
            try:
                message = await anext(self._stream)
            except StopAsyncIteration:
                raise UnavailableError("the process stream ended without an end event") from None
            event = message.event
            if event.end is not None:
                self._end = event.end
                await self._stream.aclose()
                break
            if event.data is not None and (output := self._take(event.data.stdout, "stdout")):
                return output
            if event.data is not None and (output := self._take(event.data.stderr, "stderr")):
                return output
        for kind, buffer in self._buffers.items():
            if text := buffer.feed(b"", final=True):
                return Output(kind, text)
        return None

    def read_on(self, on_stdout: Callback | None = None, on_stderr: Callback | None = None) -> None:
        """Read the output in the background from now on, so that the command never blocks on it."""
        self._reader = asyncio.get_running_loop().create_task(self._read(on_stdout, on_stderr))
        # Retrieves the error, which asyncio would report as never retrieved when nobody waits.
        self._reader.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def wait(
        self, on_stdout: Callback | None = None, on_stderr: Callback | None = None
    ) -> CommandResult:
        """Wait for the end and return the result. Raises the same as ``Commands.run``."""
        if self._reader is None:
            return await self._read(on_stdout, on_stderr)
        return await asyncio.shield(self._reader)

    async def kill(self) -> bool:
        """Kill the command at once; false when it has ended."""
        return await self._commands.kill(self.pid)

    async def send_stdin(self, text: str | bytes) -> None:
        """Write all of ``text`` to a command that was started with ``stdin=True``."""
        await self._commands.send_stdin(self.pid, text)

    async def close_stdin(self) -> None:
        """Close the command's input, so that it reads end-of-file."""
        await self._commands.close_stdin(self.pid)

    async def disconnect(self) -> None:
        """Stop reading; the command runs on."""
        with shielded():
            if self._reader is not None and not self._reader.done():
                self._reader.cancel()
                await asyncio.gather(self._reader, return_exceptions=True)
            await self._stream.aclose()

    aclose = disconnect

    async def abandon(self) -> None:
        """Kill the command and stop reading."""
        try:
            await self.kill()
        finally:
            await self.disconnect()

    def result(self) -> CommandResult:
        """Return the result of a command that has ended. Raises ``SbxError`` before that."""
        if self._end is None:
            raise SbxError(f"process {self.pid} has not ended")
        error = self._end.error if self._end.exit_code else None
        return CommandResult(
            stdout=self.stdout,
            stderr=self.stderr,
            exit_code=self._end.exit_code,
            error=error,
            truncated=any(buffer.truncated for buffer in self._buffers.values()),
        )

    async def _read(self, on_stdout: Callback | None, on_stderr: Callback | None) -> CommandResult:
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        while (output := await self.receive()) is not None:
            if (callback := callbacks[output.kind]) is not None:
                answer = callback(output.text)
                if inspect.isawaitable(answer):
                    await answer
        return self.result()

    def _take(self, chunk: bytes | None, kind: str) -> Output | None:
        if not chunk or not (text := self._buffers[kind].feed(chunk)):
            return None
        return Output(kind, text)
