"""Routes for terminals in the browser, which can reconnect without losing output."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from jupyter_server._tz import utcnow
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.client.files.files import Files
from sbx_jupyter.client.processes.commands import Commands
from sbx_jupyter.client.processes.pty import PtyHandle, PtyOutput, Ptys
from sbx_jupyter.client.processes.terminal_link import TerminalInput, run_terminal_link
from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.running_commands import foreground_program
from sbx_jupyter.server.sockets import SandboxSocket

if TYPE_CHECKING:
    from sbx_jupyter.protocol.runtime import ProcessInfo

TAG: Final = "jupyter-terminal"
"""Tag of the processes that are terminals of any Jupyter server."""

WINDOW: Final = 512 * 1024
"""How many bytes of output may be unacknowledged, for browsers that acknowledge output."""

MAX_SIDE: Final = 10_000
_MAX_PID: Final = 2**31 - 1
_MAX_SEQUENCE: Final = 2**53 - 1


class Size(msgspec.Struct, frozen=True):
    cols: int
    rows: int


class Control(msgspec.Struct, frozen=True):
    """A text frame of the browser."""

    resize: Size | None = None
    ack: int | None = None


class TerminalsHandler(SandboxRoute):
    """Lists the running terminals that Jupyter servers started in a sandbox."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        runtime = await self.connection.runtime(sandbox_id)
        running = await Commands(runtime).list()
        self.answer([_listed(process) for process in running if process.tag == TAG])


class TerminalHandler(SandboxRoute):
    """``terminals/{pid}``: describes or ends a terminal."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str, pid: str) -> None:
        """Answer ``{"pid", "running"}``, with the name of the foreground program.

        ``running`` is ``""`` at the shell's prompt, ``null`` where it cannot be read.
        """
        runtime = await self.connection.runtime(sandbox_id)
        shell = await self._find(Commands(runtime), int(pid))
        self.answer({"pid": shell, "running": await foreground_program(Files(runtime), shell)})

    @web.authenticated
    @authorized
    async def delete(self, sandbox_id: str, pid: str) -> None:
        """End the shell; the kernel then sends SIGHUP to the foreground processes."""
        commands = Commands(await self.connection.runtime(sandbox_id))
        await commands.kill(await self._find(commands, int(pid)))
        self.answer_empty()

    async def _find(self, commands: Commands, pid: int) -> int:
        """Return ``pid`` if it is a terminal; raises ``NotFoundError`` for any other process."""
        for process in await commands.list():
            if process.pid == pid and process.tag == TAG:
                return pid
        raise NotFoundError(f"no terminal {pid} runs in this sandbox")


class TerminalSocket(SandboxSocket):
    """Connects one view to a terminal; several views may show the same terminal.

    To the browser: first the text frame ``{"pid", "sequence"}``, then binary frames of output. The
    first byte of output has the number ``sequence``. If output was lost, the text frame is sent
    again, with the number of the next byte. At the end ``{"exit": {"code", "status"}}``.

    From the browser: binary frames of keys; text frames ``{"resize": {"cols", "rows"}}`` and, for
    browsers that limit unacknowledged output to ``WINDOW`` bytes, ``{"ack": n}`` with the number of
    output bytes shown so far on this socket.

    Closing the socket leaves the terminal running. The query arguments ``pid`` and ``since`` (the
    number of the first byte to send) connect to it again. ``cwd`` is the directory in which a new
    shell starts.
    """

    def initialize(self) -> None:
        self._input = TerminalInput()
        self._next = 0
        self._sent = 0
        self._acknowledged: int | None = None
        self._moved = asyncio.Event()

    async def on_message(self, message: str | bytes) -> None:
        """Handle a frame; tornado reads no further frames while this waits."""
        self.settings["sbx_last_activity"] = utcnow()
        if isinstance(message, bytes):
            await self._input.put(message)
            return
        try:
            self._control(msgspec.json.decode(message, type=Control))
        except msgspec.DecodeError as e:
            self.log.warning("%s: ignored a text frame: %s", self.request.path, e)

    async def serve(self, sandbox_id: str) -> None:
        runtime = await self.connection.runtime(sandbox_id)
        async with await self._attach(Ptys(runtime)) as terminal:
            self._next = terminal.next_sequence
            await self.send_text({"pid": terminal.pid, "sequence": self._next})
            end = await run_terminal_link(terminal, self._input, partial(self._show, terminal))
        if end is not None:
            await self.send_text({"exit": {"code": end.exit_code, "status": end.status}})

    async def _attach(self, terminals: Ptys) -> PtyHandle:
        cols = self.number_argument("cols", 80, 1, MAX_SIDE)
        rows = self.number_argument("rows", 24, 1, MAX_SIDE)
        pid = self.number_argument("pid", 0, 0, _MAX_PID)
        if not pid:
            cwd = self.get_query_argument("cwd", "", strip=False) or None
            return await terminals.create(cols, rows, cwd=cwd, timeout=None, tag=TAG)
        since = self.number_argument("since", 0, 0, _MAX_SEQUENCE)
        terminal = await terminals.connect(pid, replay_from=since)
        if self.get_query_argument("cols", ""):
            self._input.resize(cols, rows)
        return terminal

    async def _show(self, terminal: PtyHandle, output: PtyOutput) -> None:
        """Send a piece of output; waits while too much output is unacknowledged."""
        if output.sequence != self._next:
            await self.send_text({"pid": terminal.pid, "sequence": output.sequence})
        self._next = output.sequence + len(output.chunk)
        await self._wait_for_window()
        await self.write_message(output.chunk, binary=True)
        self._sent += len(output.chunk)

    async def _wait_for_window(self) -> None:
        while self._acknowledged is not None and self._sent - self._acknowledged > WINDOW:
            self._moved.clear()
            await self._moved.wait()

    def _control(self, control: Control) -> None:
        if control.resize is not None:
            cols, rows = (
                min(max(side, 1), MAX_SIDE) for side in (control.resize.cols, control.resize.rows)
            )
            self._input.resize(cols, rows)
        if control.ack is not None:
            self._acknowledged = max(control.ack, self._acknowledged or 0)
            self._moved.set()


def _listed(process: ProcessInfo) -> dict[str, object]:
    command = " ".join([process.config.cmd, *process.config.args])
    return {"pid": process.pid, "cmd": command, "tag": process.tag}
