"""Terminals in the browser: bytes both ways, re-attached without loss."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import msgspec
from jupyter_server._tz import utcnow
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.client.commands import Commands
from sbx_jupyter.client.pty import PtyHandle, Ptys
from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.sockets import SandboxSocket
from sbx_jupyter.server.terminal_input import TerminalInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbx_jupyter.protocol.runtime import ProcessInfo

TAG: Final = "jupyter-terminal"
"""Marks the processes that are terminals of a Jupyter server, whichever server started them."""

WINDOW: Final = 512 * 1024
"""How far a browser that acknowledges output may lag behind."""

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
    """The live terminals that Jupyter servers started in this sandbox."""

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        runtime = await self.connections.runtime(sandbox_id)
        running = await Commands(runtime).list()
        self.answer([_listed(process) for process in running if process.tag == TAG])


class TerminalHandler(SandboxSocket):
    """One view of one terminal; any number of them may show the same one.

    To the browser: first the text frame ``{"pid", "sequence"}``, then binary frames of output,
    counted from ``sequence``. The text frame comes again when output was lost between, with the
    number to count on from. At the end ``{"exit": {"code", "status"}}``.

    From the browser: binary frames of keys; text frames ``{"resize": {"cols", "rows"}}`` and,
    for browsers that want no more than ``WINDOW`` bytes in flight, ``{"ack": n}`` with the number
    of output bytes shown so far on this socket.

    Closing the socket leaves the terminal running; ``pid`` and ``since`` come back to it.
    """

    def initialize(self) -> None:
        self._input = TerminalInput()
        self._sent = 0
        self._acknowledged: int | None = None
        self._moved = asyncio.Event()

    async def on_message(self, message: str | bytes) -> None:
        """Take a frame; while this waits, tornado reads no further ones."""
        self.settings["sbx_last_activity"] = utcnow()
        if isinstance(message, bytes):
            await self._input.put(message)
            return
        try:
            self._control(msgspec.json.decode(message, type=Control))
        except msgspec.DecodeError as e:
            self.log.warning("%s: ignored a text frame: %s", self.request.path, e)

    async def serve(self, sandbox_id: str) -> None:
        runtime = await self.connections.runtime(sandbox_id)
        async with await self._attach(Ptys(runtime)) as terminal:
            await self.send_text({"pid": terminal.pid, "sequence": terminal.next_sequence})
            await self._exchange(terminal)
            end = terminal.end
        if end is not None:
            await self.send_text({"exit": {"code": end.exit_code, "status": end.status}})

    async def _attach(self, terminals: Ptys) -> PtyHandle:
        cols = self.number_argument("cols", 80, 1, MAX_SIDE)
        rows = self.number_argument("rows", 24, 1, MAX_SIDE)
        pid = self.number_argument("pid", 0, 0, _MAX_PID)
        if not pid:
            return await terminals.create(cols, rows, timeout=None, tag=TAG)
        since = self.number_argument("since", 0, 0, _MAX_SEQUENCE)
        terminal = await terminals.connect(pid, replay_from=since)
        if self.get_query_argument("cols", ""):
            self._input.resize(cols, rows)
        return terminal

    async def _exchange(self, terminal: PtyHandle) -> None:
        """Copy both ways until the shell ends; the first failure of any copier is raised."""
        copiers = [
            asyncio.create_task(self._copy_output(terminal)),
            asyncio.create_task(self._copy_input(terminal)),
            asyncio.create_task(self._copy_sizes(terminal)),
        ]
        try:
            done, _ = await asyncio.wait(copiers, return_when=asyncio.FIRST_COMPLETED)
            for copier in done:
                copier.result()
        finally:
            for copier in copiers:
                copier.cancel()
            await asyncio.gather(*copiers, return_exceptions=True)

    async def _copy_output(self, terminal: PtyHandle) -> None:
        expected = terminal.next_sequence
        async for chunk, sequence in terminal:
            if sequence != expected:
                await self.send_text({"pid": terminal.pid, "sequence": sequence})
            expected = sequence + len(chunk)
            await self._wait_for_window()
            await self.write_message(chunk, binary=True)
            self._sent += len(chunk)

    async def _copy_input(self, terminal: PtyHandle) -> None:
        while True:
            keys = await self._input.take()
            with _while_it_lives():
                await terminal.send(keys)

    async def _copy_sizes(self, terminal: PtyHandle) -> None:
        while True:
            cols, rows = await self._input.take_size()
            with _while_it_lives():
                await terminal.resize(cols, rows)

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


@contextlib.contextmanager
def _while_it_lives() -> Iterator[None]:
    """Typing at a shell that has just ended is no error: its end is on the way as output."""
    with contextlib.suppress(NotFoundError):
        yield


def _listed(process: ProcessInfo) -> dict[str, object]:
    command = " ".join([process.config.cmd, *process.config.args])
    return {"pid": process.pid, "cmd": command, "tag": process.tag}
