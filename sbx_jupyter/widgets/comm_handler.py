"""Handles a widget's comm in the kernel: requests in order, answers, terminal output.

These rules let a widget work while a cell runs:

1. All work happens on the portal's thread. ``receive``, which the kernel's main thread and its
   subshells call, only adds to a queue.
2. The queue is handled in order, so that keys come after the message that opened their terminal.
   Long work runs in separate tasks.
3. Everything is sent in the context of the latest message received, since ipykernel routes the next
   messages of a comm by the parent header of the last one published on it. Messages sent in the
   cell's context would wait until the cell ends.
4. Each view numbers its messages, since two threads may deliver them out of order.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from sbx_jupyter.client.processes.terminal_link import TerminalInput, run_terminal_link
from sbx_jupyter.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    SbxError,
    UnimplementedError,
)
from sbx_jupyter.protocol.connect import error_to_json
from sbx_jupyter.widgets.ordering import Resequencer
from sbx_jupyter.widgets.rate_limit import RateLimit
from sbx_jupyter.widgets.requests import OPERATIONS, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from sbx_jupyter.client import AsyncSandbox
    from sbx_jupyter.client.blocking import Portal
    from sbx_jupyter.client.processes.pty import PtyHandle, PtyOutput

    Send = Callable[[dict[str, Any], Sequence[bytes]], None]

log = logging.getLogger(__name__)

MAX_QUEUED: Final = 10_000
MAX_AT_ONCE: Final = 16
MAX_TERMINALS: Final = 8
"""The oldest is closed beyond this, since a view may disappear without closing its terminal."""

_TOO_MANY_TERMINALS: Final = (
    f"{MAX_TERMINALS} newer views of this widget show a terminal; close one and show this one again"
)


class CommHandler:
    """Serves the views of one widget on the portal; call ``start`` first, ``close`` at the end."""

    def __init__(self, portal: Portal, sandbox: AsyncSandbox, send: Send) -> None:
        self._portal = portal
        self._sandbox = sandbox
        self._send_now = send
        self._context = contextvars.copy_context()
        self._inbox = Resequencer[tuple[Request, bytes] | None](self._enqueue)
        self._queue: asyncio.Queue[tuple[Request, bytes]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._terminals: dict[tuple[str, int], _Terminal] = {}

    def start(self) -> None:
        """Start to handle received messages."""
        self._portal.start(self._begin())

    def close(self) -> None:
        """Close every terminal's connection and stop; the sandbox is not changed."""
        self._portal.start(self._end())

    def receive(self, content: Any, buffers: Sequence[Any]) -> None:
        """Take a message of the front end; may be called on any thread."""
        self._context = contextvars.copy_context()
        try:
            request = msgspec.convert(content, Request, strict=False)
        except msgspec.ValidationError as e:
            self._refuse(content, InvalidArgumentError(f"cannot read the widget's message: {e}"))
            return
        bytes_given = bytes(buffers[0]) if buffers else b""
        self._inbox.receive(request.view, request.seq, (request, bytes_given))

    def refresh(self) -> None:
        """Ask every view to reload what it shows."""
        self._send({"event": "refresh"})

    def _enqueue(self, message: tuple[Request, bytes] | None) -> None:
        if message is None:
            return
        if self._queue.qsize() >= MAX_QUEUED:
            error = ResourceExhaustedError("too many messages of the widget wait for the sandbox")
            self._reply_error(message[0], error)
            return
        self._portal.start(self._queue.put(message))

    def _refuse(self, content: Any, error: SbxError) -> None:
        """Answer a malformed message with an error, if it has an id, and do not wait for it."""
        if not isinstance(content, dict):
            return
        fields = cast("dict[str, Any]", content)
        view, number = fields.get("view"), fields.get("seq")
        if isinstance(fields.get("id"), int):
            self._send({"id": fields["id"], "view": view, "error": error_to_json(error)})
        if isinstance(view, str) and isinstance(number, int):
            self._inbox.receive(view, number, None)

    async def _begin(self) -> None:
        self._spawn(self._serve())

    async def _end(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self) -> None:
        while True:
            request, content = await self._queue.get()
            if request.op in OPERATIONS:
                await self._room.acquire()
                self._spawn(self._operate(request, content))
            else:
                await self._answering(request, self._handle_terminal(request, content))

    async def _operate(self, request: Request, content: bytes) -> None:
        try:
            await self._answering(request, self._answer(request, content))
        finally:
            self._room.release()

    async def _answer(self, request: Request, content: bytes) -> None:
        ok, buffers = await OPERATIONS[request.op](self._sandbox, request, content)
        self._reply(request, ok, buffers)

    async def _answering(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        """Await ``work``; answer the request with an error if it fails."""
        try:
            await work
        except SbxError as e:
            self._reply_error(request, e)
        except Exception:  # a bug; the view gets an answer, and the next messages are served
            log.exception("A widget's request %r failed", request.op)
            self._reply_error(request, InternalError("the request failed; see the kernel's log"))

    async def _handle_terminal(self, request: Request, content: bytes) -> None:
        if request.op == "terminal_open":
            await self._open_terminal(request)
            return
        terminal = self._terminals.get((request.view, request.terminal))
        if terminal is None:
            if request.op == "terminal_close":
                return
            raise NotFoundError(f"the view has no terminal {request.terminal}")
        if request.op == "terminal_input":
            if terminal.input.is_full:
                # Waiting would hold up all other messages of all views.
                raise ResourceExhaustedError("the terminal's program does not read its input")
            await terminal.input.put(content)
        elif request.op == "terminal_resize":
            terminal.input.resize(request.cols, request.rows)
        elif request.op == "terminal_close":
            self._drop(terminal)
        else:
            raise UnimplementedError(f"a widget cannot {request.op!r}")

    async def _open_terminal(self, request: Request) -> None:
        if request.pid is None:
            handle = await self._sandbox.pty.create(request.cols, request.rows)
        else:
            handle = await self._sandbox.pty.connect(request.pid, replay_from=request.since or 0)
        while len(self._terminals) >= MAX_TERMINALS:
            oldest = next(iter(self._terminals.values()))
            self._drop(oldest)
            error = FailedPreconditionError(_TOO_MANY_TERMINALS)
            self._send(oldest.event("terminal_error") | {"error": error_to_json(error)})
        terminal = _Terminal(request.view, request.id)
        if request.pid is not None:
            terminal.input.resize(request.cols, request.rows)
        self._terminals[terminal.key] = terminal
        self._reply(request, {"pid": handle.pid, "sequence": handle.next_sequence})
        terminal.task = self._spawn(self._link(terminal, handle))

    async def _link(self, terminal: _Terminal, handle: PtyHandle) -> None:
        """Connect a terminal to its view until the shell ends or the connection breaks."""

        async def deliver(output: PtyOutput) -> None:
            content = terminal.event("terminal_data") | {"sequence": output.sequence}
            self._send(content, (output.chunk,))
            await terminal.rate_limit.spend(len(output.chunk))

        try:
            async with handle:
                end = await run_terminal_link(handle, terminal.input, deliver)
        except SbxError as e:
            self._send(terminal.event("terminal_error") | {"error": error_to_json(e)})
        else:
            if end is not None:
                ended = {"code": end.exit_code, "status": end.status}
                self._send(terminal.event("terminal_exit") | {"exit": ended})
        finally:
            self._terminals.pop(terminal.key, None)

    def _drop(self, terminal: _Terminal) -> None:
        self._terminals.pop(terminal.key, None)
        if terminal.task is not None:
            terminal.task.cancel()

    def _reply(self, request: Request, ok: Any, buffers: Sequence[bytes] = ()) -> None:
        self._send({"id": request.id, "view": request.view, "ok": ok}, buffers)

    def _reply_error(self, request: Request, error: SbxError) -> None:
        self._send({"id": request.id, "view": request.view, "error": error_to_json(error)})

    def _send(self, content: dict[str, Any], buffers: Sequence[bytes] = ()) -> None:
        # Run in a copy, since two threads cannot enter the same context at once.
        self._context.copy().run(self._send_now, content, buffers)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Terminal:
    """One view's connection to a terminal."""

    def __init__(self, view: str, number: int) -> None:
        self.key = (view, number)
        self.input = TerminalInput()
        self.rate_limit = RateLimit()
        self.task: asyncio.Task[None] | None = None

    def event(self, name: str) -> dict[str, Any]:
        view, number = self.key
        return {"event": name, "terminal": number, "view": view}
