"""Routes for terminals in the browser, which can reconnect without losing output."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import msgspec
from jupyter_server._tz import utcnow
from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from sbx_jupyter.client.files.files import Files
from sbx_jupyter.client.processes.commands import Commands
from sbx_jupyter.client.processes.pty import PtyHandle, PtyOutput, Ptys
from sbx_jupyter.client.processes.terminal_link import TerminalInput, run_terminal_link
from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import EMPTY, SOCKET, Answer, Parameter
from sbx_jupyter.server.running_commands import foreground_program
from sbx_jupyter.server.sockets import SandboxSocket
from sbx_jupyter.server.terminal_names import is_terminal, new_tag
from sbx_jupyter.server.terminal_views import TerminalShown, TerminalViews, View

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_server.base.handlers import JupyterHandler

    from sbx_jupyter.client.api.runtime import RuntimeClient
    from sbx_jupyter.protocol.runtime import ProcessInfo

WINDOW: Final = 512 * 1024
"""Bytes of output that may be unacknowledged, for browsers that acknowledge output."""

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


class TerminalNameBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``PATCH terminals/{pid}``; an empty name removes the name."""

    name: str


class ListedTerminal(TerminalShown):
    """A live terminal; ``link`` opens it for other users who may use the sandbox."""

    pid: int
    cmd: str
    tag: str | None
    link: str


class NamedTerminal(TerminalShown):
    """A terminal after it was named."""

    pid: int


class TerminalState(NamedTerminal):
    """A terminal; ``running`` is its foreground program, ``""`` at the prompt, else ``null``."""

    running: str | None
    link: str


class TerminalsHandler(SandboxRoute):
    """Lists the running terminals that Jupyter servers started in a sandbox.

    Each with ``pid``, ``cmd``, ``name``, the ``viewers`` at this server, and the ``link`` by which
    other users open it who may use the sandbox.
    """

    answers: ClassVar = {"get": Answer(list[ListedTerminal])}

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        runtime = await self.connection.runtime(sandbox_id)
        running = await Commands(runtime).list()
        tags, views = tags_of(running), views_of(self)
        await views.meet(sandbox_id, tags)
        shown: list[ListedTerminal] = [
            {
                "pid": process.pid,
                "cmd": " ".join([process.config.cmd, *process.config.args]),
                "tag": process.tag,
                "link": _link(self.base_url, sandbox_id, process.pid),
                **views.describe(sandbox_id, process.pid),
            }
            for process in running
            if process.pid in tags
        ]
        self.answer(shown)


class TerminalHandler(SandboxRoute):
    """``terminals/{pid}``: describes, names or ends a terminal."""

    bodies: ClassVar = {"patch": TerminalNameBody}
    answers: ClassVar = {
        "get": Answer(TerminalState),
        "patch": Answer(NamedTerminal),
        "delete": EMPTY,
    }

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str, pid: str) -> None:
        """Answer ``{"pid", "running", "name", "viewers", "link"}``.

        ``running`` is the foreground program, ``""`` at the shell's prompt, ``null`` where it
        cannot be read.
        """
        runtime = await self.connection.runtime(sandbox_id)
        shell = int(pid)
        await views_of(self).meet(
            sandbox_id, {shell: await find_terminal(Commands(runtime), shell)}
        )
        running = await foreground_program(Files(runtime), shell)
        shown = views_of(self).describe(sandbox_id, shell)
        link = _link(self.base_url, sandbox_id, shell)
        answer: TerminalState = {"pid": shell, "running": running, **shown, "link": link}
        self.answer(answer)

    @web.authenticated
    @authorized
    async def patch(self, sandbox_id: str, pid: str) -> None:
        """Name a terminal for all its viewers, until it ends."""
        name = self.decode_body(TerminalNameBody).name
        shell, views = int(pid), views_of(self)
        tag = await find_terminal(Commands(await self.connection.runtime(sandbox_id)), shell)
        await views.rename(sandbox_id, shell, tag, name)
        answer: NamedTerminal = {"pid": shell, **views.describe(sandbox_id, shell)}
        self.answer(answer)

    @web.authenticated
    @authorized
    async def delete(self, sandbox_id: str, pid: str) -> None:
        """End the shell; the kernel then sends SIGHUP to the foreground processes."""
        commands = Commands(await self.connection.runtime(sandbox_id))
        shell, views = int(pid), views_of(self)
        await views.meet(sandbox_id, {shell: await find_terminal(commands, shell)})
        await commands.kill(shell)
        await views.forget(sandbox_id, shell)
        self.answer_empty()


class TerminalSocket(SandboxSocket):
    """Connects one view to a terminal; several views may show the same terminal.

    To the browser: first the text frame ``{"pid", "sequence"}``, then binary frames of output. The
    first byte of output has the number ``sequence``. If output was lost, the text frame is sent
    again, with the number of the next byte. At the end ``{"exit": {"code", "status"}}``.

    From the browser: binary frames of keys; text frames ``{"resize": {"cols", "rows"}}`` and, for
    browsers that limit unacknowledged output to ``WINDOW`` bytes, ``{"ack": n}`` with the number of
    output bytes shown so far on this socket.

    ``{"name", "viewers"}`` comes when somebody names the terminal, joins or leaves.

    With ``readOnly=true``, for which ``read`` is permission enough, keys and sizes are ignored.

    Closing the socket leaves the terminal running. The query arguments ``pid`` and ``since`` (the
    number of the first byte to send) connect to it again. ``cwd`` is the directory in which a new
    shell starts.
    """

    answers: ClassVar = {"get": SOCKET}
    queries: ClassVar = {
        "get": (
            Parameter("cols", "The number of columns.", int),
            Parameter("rows", "The number of rows.", int),
            Parameter("pid", "A running terminal; default: a new one.", int),
            Parameter("since", "The number of the first byte of its output to send.", int),
            Parameter("cwd", "The directory in which a new shell starts."),
            Parameter("readOnly", "Whether to ignore keys.", Literal["true", "1", "false"]),
        )
    }

    def initialize(self) -> None:
        self._input = TerminalInput()
        self._telling: asyncio.Task[None] | None = None
        self._news: TerminalShown | None = None
        self._next = 0
        self._sent = 0
        self._acknowledged: int | None = None
        self._moved = asyncio.Event()

    @property
    def is_read_only(self) -> bool:
        """Whether the browser only looks."""
        return self.get_query_argument("readOnly", "") in ("1", "true")

    @property
    def action(self) -> str:
        return "read" if self.is_read_only else "execute"

    async def on_message(self, message: str | bytes) -> None:
        """Handle a frame; tornado reads no further frames while this waits."""
        if not self.is_read_only:
            self.settings["sbx_last_activity"] = utcnow()
        elif isinstance(message, bytes):
            return
        if isinstance(message, bytes):
            await self._input.put(message)
            return
        try:
            self._control(msgspec.json.decode(message, type=Control))
        except msgspec.DecodeError as e:
            self.log.warning("%s: ignored a text frame: %s", self.request.path, e)

    async def serve(self, sandbox_id: str) -> None:
        runtime = await self.connection.runtime(sandbox_id)
        views = views_of(self)
        user = self.current_user
        view = View(user.display_name or user.username, self.is_read_only, self._tell)
        async with await self._attach(sandbox_id, runtime) as terminal:
            self._next = terminal.next_sequence
            await self.send_text({"pid": terminal.pid, "sequence": self._next})
            with views.shown(sandbox_id, terminal.pid, view):
                end = await run_terminal_link(terminal, self._input, partial(self._show, terminal))
        if end is not None:
            await views.forget(sandbox_id, terminal.pid)
            await self.send_text({"exit": {"code": end.exit_code, "status": end.status}})

    def on_close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
        super().on_close()

    def _tell(self, shown: TerminalShown) -> None:
        """Send name and viewers; of several changes, a slow browser gets the last."""
        self._news = shown
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._send_news())

    async def _send_news(self) -> None:
        with contextlib.suppress(WebSocketClosedError, StreamClosedError):
            while self._news is not None:
                news, self._news = self._news, None
                await self.send_text(news)

    async def _attach(self, sandbox_id: str, runtime: RuntimeClient) -> PtyHandle:
        terminals = Ptys(runtime)
        cols = self.number_argument("cols", 80, 1, MAX_SIDE)
        rows = self.number_argument("rows", 24, 1, MAX_SIDE)
        pid = self.number_argument("pid", 0, 0, _MAX_PID)
        if not pid and not self.is_read_only:
            cwd, tag = self.get_query_argument("cwd", "", strip=False) or None, new_tag()
            terminal = await terminals.create(cols, rows, cwd=cwd, timeout=None, tag=tag)
            await views_of(self).meet(sandbox_id, {terminal.pid: tag})
            return terminal
        since = self.number_argument("since", 0, 0, _MAX_SEQUENCE)
        tags = tags_of(await Commands(runtime).list())
        if self.is_read_only and pid not in tags:
            raise no_terminal(pid)
        # One that a widget or a program began has no name here, and can be used all the same.
        await views_of(self).meet(sandbox_id, {pid: tags[pid]} if pid in tags else {})
        terminal = await terminals.connect(pid, replay_from=since)
        if self.get_query_argument("cols", "") and not self.is_read_only:
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
        if control.resize is not None and not self.is_read_only:
            cols, rows = (
                min(max(side, 1), MAX_SIDE) for side in (control.resize.cols, control.resize.rows)
            )
            self._input.resize(cols, rows)
        if control.ack is not None:
            self._acknowledged = max(control.ack, self._acknowledged or 0)
            self._moved.set()


def tags_of(running: Iterable[ProcessInfo]) -> dict[int, str]:
    """The tags of those processes that are terminals of a Jupyter server, by process id."""
    return {each.pid: each.tag for each in running if each.tag and is_terminal(each.tag)}


async def find_terminal(commands: Commands, pid: int) -> str:
    """The tag of a terminal; raises ``NotFoundError`` for the number of any other process."""
    if (tag := tags_of(await commands.list()).get(pid)) is None:
        raise no_terminal(pid)
    return tag


def no_terminal(pid: int) -> NotFoundError:
    """The error for the number of a process that is not a terminal."""
    return NotFoundError(f"no terminal {pid} runs in this sandbox")


def views_of(handler: JupyterHandler) -> TerminalViews:
    """The names and views of the terminals of this server."""
    return handler.settings["sbx_jupyter"].terminals


def _link(base_url: str, sandbox_id: str, pid: int) -> str:
    """The address at which JupyterLab opens a terminal; its sockets check the permission."""
    return f"{base_url}lab?sbx-terminal={sandbox_id}:{pid}"
