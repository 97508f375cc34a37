"""The blocking face of a sandbox's commands and terminals."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any, Literal, overload

from sbx_jupyter.client.blocking import blocking
from sbx_jupyter.client.commands import DEFAULT_TIMEOUT, CommandHandle, Commands
from sbx_jupyter.client.pty import SHELL, PtyHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sbx_jupyter.client.blocking import Portal
    from sbx_jupyter.client.output import CommandResult
    from sbx_jupyter.client.pty import PtyOutput, Ptys

    Callback = Callable[[str], Any]


class SyncCommands:
    """Like ``Commands``, for code that waits."""

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
        """See ``Commands.run``. Callbacks of a foreground command run on the calling thread.

        Those of a background command run on a thread of their own, until it ends.
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
        """See ``Commands.connect``."""
        portal, commands = self._connected()
        return SyncCommandHandle(portal, portal.call(commands.connect(pid, timeout=timeout)))

    list = blocking(Commands.list)
    kill = blocking(Commands.kill)
    send_stdin = blocking(Commands.send_stdin)
    close_stdin = blocking(Commands.close_stdin)


class SyncCommandHandle:
    """Like ``CommandHandle``, for code that waits."""

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
        """What it has printed so far."""
        return self._handle.stdout

    @property
    def stderr(self) -> str:
        """What it has printed to stderr so far."""
        return self._handle.stderr

    @property
    def exit_code(self) -> int | None:
        """``None`` while it runs."""
        return self._handle.exit_code

    def read_on(self, on_stdout: Callback | None = None, on_stderr: Callback | None = None) -> None:
        """Read the output in the background from now on; callbacks get a thread, if there are any.

        That thread carries the caller's context, so that a notebook shows what they print.
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
        """See ``CommandHandle.wait``."""
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
            self._failure = error  # raised again by whoever waits

    def _read(self, on_stdout: Callback | None, on_stderr: Callback | None) -> None:
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        while (output := self._portal.call(self._handle.receive())) is not None:
            if (callback := callbacks[output.kind]) is not None:
                callback(output.text)


class SyncPtys:
    """Like ``Ptys``, for code that waits."""

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
        """See ``Ptys.create``."""
        portal, ptys = self._connected()
        creating = ptys.create(
            cols, rows, command=command, user=user, cwd=cwd, envs=envs, timeout=timeout, tag=tag
        )
        return SyncPtyHandle(portal, portal.call(creating))

    def connect(self, pid: int, *, replay_from: int | None = None) -> SyncPtyHandle:
        """See ``Ptys.connect``."""
        portal, ptys = self._connected()
        return SyncPtyHandle(portal, portal.call(ptys.connect(pid, replay_from=replay_from)))


class SyncPtyHandle:
    """Like ``PtyHandle``, for code that waits: an iterator of ``PtyOutput``."""

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
        """Where to carry on after a broken connection."""
        return self._handle.next_sequence

    wait = blocking(PtyHandle.wait)
    send = blocking(PtyHandle.send)
    resize = blocking(PtyHandle.resize)
    kill = blocking(PtyHandle.kill)
    disconnect = blocking(PtyHandle.disconnect)
