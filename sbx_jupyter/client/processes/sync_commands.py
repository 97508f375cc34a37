"""``Commands`` and ``Ptys`` for blocking code."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any, Literal, overload

from sbx_jupyter.client.blocking import blocking
from sbx_jupyter.client.processes.commands import DEFAULT_TIMEOUT, CommandHandle, Commands
from sbx_jupyter.client.processes.pty import SHELL, PtyHandle, Ptys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sbx_jupyter.client.blocking import Portal
    from sbx_jupyter.client.processes.output import CommandResult
    from sbx_jupyter.client.processes.pty import PtyOutput

    Callback = Callable[[str], Any]


class SyncCommands:
    """The commands of one sandbox; like ``Commands``, but its methods block."""

    def __init__(self, connected: Callable[[], tuple[Portal, Commands]]) -> None:
        self._connected = connected

    @overload
    def run(
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
    def run(
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
    ) -> SyncCommandHandle: ...

    def run(
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
    ) -> CommandResult | SyncCommandHandle:
        """Run a command in a login shell, or a list of words without a shell's expansions.

        The command is killed after ``timeout`` seconds (``None`` or 0: never), and when a
        foreground ``run`` is interrupted. A failing command is a result, not an exception. The
        callbacks of a foreground command run on the calling thread, those of a background command
        on one extra thread. Raises ``DeadlineExceededError`` when the time ran out,
        ``InvalidArgumentError`` for a missing ``cwd``, ``UnauthenticatedError`` for an unknown
        user, ``UnavailableError`` when the sandbox was stopped.
        """
        portal, commands = self._connected()
        starting = commands.start(
            command, envs=envs, cwd=cwd, user=user, timeout=timeout, stdin=stdin
        )
        handle = SyncCommandHandle(portal, portal.call(starting))
        if background:
            handle.read_on(on_stdout, on_stderr)
            return handle
        try:
            return handle.wait(on_stdout, on_stderr)
        except KeyboardInterrupt:
            handle.kill()
            raise
        finally:
            handle.disconnect()

    def connect(self, pid: int, *, timeout: float | None = None) -> SyncCommandHandle:
        """Attach to a running command and read its output from now on.

        Raises ``NotFoundError``.
        """
        portal, commands = self._connected()
        return SyncCommandHandle(portal, portal.call(commands.connect(pid, timeout=timeout)))

    list = blocking(Commands.list)
    kill = blocking(Commands.kill)
    send_signal = blocking(Commands.send_signal)
    send_stdin = blocking(Commands.send_stdin)
    close_stdin = blocking(Commands.close_stdin)


class SyncCommandHandle:
    """One running command; like ``CommandHandle``, but its methods block."""

    def __init__(self, portal: Portal, handle: CommandHandle) -> None:
        self._portal = portal
        self._handle = handle
        self._reader: threading.Thread | None = None
        self._failure: BaseException | None = None
        self.pid = handle.pid

    def _connected(self) -> tuple[Portal, CommandHandle]:
        return self._portal, self._handle

    def __repr__(self) -> str:
        return f"SyncCommandHandle(pid={self.pid})"

    @property
    def stdout(self) -> str:
        """The standard output so far."""
        return self._handle.stdout

    @property
    def stderr(self) -> str:
        """The standard error so far."""
        return self._handle.stderr

    @property
    def exit_code(self) -> int | None:
        """``None`` while it runs."""
        return self._handle.exit_code

    def read_on(self, on_stdout: Callback | None = None, on_stderr: Callback | None = None) -> None:
        """Read the output in the background from now on.

        Callbacks run on an extra thread, in the caller's context, so that a notebook shows what
        they print.
        """
        if on_stdout is None and on_stderr is None:
            self._portal.call(self._read_on())
            return
        context = contextvars.copy_context()
        self._reader = threading.Thread(
            target=context.run,
            args=(self._read_in_thread, on_stdout, on_stderr),
            name=f"sbx-jupyter-command-{self.pid}",
            daemon=True,
        )
        self._reader.start()

    def wait(
        self, on_stdout: Callback | None = None, on_stderr: Callback | None = None
    ) -> CommandResult:
        """Wait for the end and return the result. Raises the same as ``SyncCommands.run``."""
        if self._reader is not None:
            self._reader.join()
            if self._failure is not None:
                raise self._failure
            return self._handle.result()
        if on_stdout is None and on_stderr is None:
            return self._portal.call(self._handle.wait())
        self._read(on_stdout, on_stderr)
        return self._handle.result()

    kill = blocking(CommandHandle.kill)
    send_stdin = blocking(CommandHandle.send_stdin)
    close_stdin = blocking(CommandHandle.close_stdin)
    disconnect = blocking(CommandHandle.disconnect)

    async def _read_on(self) -> None:
        self._handle.read_on()

    def _read_in_thread(self, on_stdout: Callback | None, on_stderr: Callback | None) -> None:
        try:
            self._read(on_stdout, on_stderr)
        except BaseException as error:
            self._failure = error  # ``wait`` raises it

    def _read(self, on_stdout: Callback | None, on_stderr: Callback | None) -> None:
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        while (output := self._portal.call(self._handle.receive())) is not None:
            if (callback := callbacks[output.kind]) is not None:
                callback(output.text)


class SyncPtys:
    """The terminals of one sandbox; like ``Ptys``, but its methods block."""

    def __init__(self, connected: Callable[[], tuple[Portal, Ptys]]) -> None:
        self._connected = connected

    def create(
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
    ) -> SyncPtyHandle:
        """Start a login shell in a terminal; it runs until it exits or ``timeout`` passes."""
        portal, ptys = self._connected()
        creating = ptys.create(
            cols, rows, command=command, user=user, cwd=cwd, envs=envs, timeout=timeout, tag=tag
        )
        return SyncPtyHandle(portal, portal.call(creating))

    def connect(self, pid: int, *, replay_from: int | None = None) -> SyncPtyHandle:
        """Attach to a running terminal.

        With ``replay_from``, output from that sequence number on (or the oldest that is kept) comes
        first. Raises ``NotFoundError`` when there is no such process.
        """
        portal, ptys = self._connected()
        return SyncPtyHandle(portal, portal.call(ptys.connect(pid, replay_from=replay_from)))

    kill = blocking(Ptys.kill)
    resize = blocking(Ptys.resize)
    send_stdin = blocking(Ptys.send_stdin)


class SyncPtyHandle:
    """One attached terminal: a blocking iterator of ``PtyOutput``."""

    def __init__(self, portal: Portal, handle: PtyHandle) -> None:
        self._portal = portal
        self._handle = handle
        self.pid = handle.pid

    def _connected(self) -> tuple[Portal, PtyHandle]:
        return self._portal, self._handle

    def __repr__(self) -> str:
        return f"SyncPtyHandle(pid={self.pid})"

    def __iter__(self) -> Iterator[PtyOutput]:
        while (output := self._portal.call(self._handle.receive())) is not None:
            yield output

    def __enter__(self) -> SyncPtyHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    @property
    def next_sequence(self) -> int:
        """The ``replay_from`` with which to connect again after a broken connection."""
        return self._handle.next_sequence

    wait = blocking(PtyHandle.wait)
    send = blocking(PtyHandle.send)
    resize = blocking(PtyHandle.resize)
    kill = blocking(PtyHandle.kill)
    disconnect = blocking(PtyHandle.disconnect)
