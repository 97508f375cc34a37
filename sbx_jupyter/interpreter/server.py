"""The HTTP routes of the interpreter (interface 5.1): contexts, and executions as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING, Any, Final, cast

import tornado.httpserver
import tornado.iostream
import tornado.web

from sbx_jupyter.interpreter import events
from sbx_jupyter.interpreter.contexts import (
    Context,
    Contexts,
    TooManyContextsError,
    UnknownContextError,
    normalised,
)
from sbx_jupyter.interpreter.launcher import KernelStartError, Launcher
from sbx_jupyter.interpreter.variables import SandboxVariables

if TYPE_CHECKING:
    import socket

MAX_BODY: Final = 64 * 1024 * 1024


class _Handler(tornado.web.RequestHandler):
    def initialize(self, contexts: Contexts) -> None:
        self.contexts = contexts

    def write_text(self, status: int, text: str) -> None:
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(text)  # pyright: ignore[reportUnknownMemberType] - tornado's dict

    def write_json(self, value: Any) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(value))  # pyright: ignore[reportUnknownMemberType] - tornado's dict

    def body(self, *names: str, required: str | None = None) -> dict[str, Any]:
        """The members of the JSON body. Raises 422 for anything else than text or null."""
        try:
            found = json.loads(self.request.body or b"{}")
        except ValueError as error:
            raise tornado.web.HTTPError(422, f"the body is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise tornado.web.HTTPError(422, "the body is not an object")
        body = cast("dict[str, Any]", found)
        for name in names:
            if not isinstance(body.get(name), str | None):
                raise tornado.web.HTTPError(422, f"{name} is not text")
        if required is not None and not isinstance(body.get(required), str):
            raise tornado.web.HTTPError(422, f"{required} is required")
        return body

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        failure = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(failure, UnknownContextError):
            self.write_text(404, f"Context {failure} not found")
        elif isinstance(failure, TooManyContextsError):
            self.write_text(429, str(failure))
        elif isinstance(failure, KernelStartError):
            self.write_text(500, str(failure))
        elif isinstance(failure, tornado.web.HTTPError) and failure.log_message:
            self.write_text(status_code, failure.log_message)
        else:
            self.write_text(status_code, self._reason)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if not isinstance(value, UnknownContextError | KernelStartError | TooManyContextsError):
            super().log_exception(typ, value, tb)


class HealthHandler(_Handler):
    def get(self) -> None:
        self.write_json("OK")


class ContextsHandler(_Handler):
    def get(self) -> None:
        self.write_json(self.contexts.to_json())

    async def post(self) -> None:
        body = self.body("language", "cwd")
        context = await self.contexts.create(normalised(body.get("language")), body.get("cwd"))
        self.write_json(context.to_json())


class ContextHandler(_Handler):
    async def delete(self, context_id: str) -> None:
        await self.contexts.remove(context_id)
        self.write_json(None)


class RestartHandler(_Handler):
    async def post(self, context_id: str) -> None:
        await self.contexts.get(context_id).restart()
        self.write_json(None)


class ExecuteHandler(_Handler):
    _running: asyncio.Task[None] | None = None

    async def post(self) -> None:
        body = self.body("context_id", "language", required="code")
        envs = body.get("env_vars")
        if not _is_text_map(envs):
            raise tornado.web.HTTPError(422, "env_vars is not an object of texts")
        if body.get("context_id") and body.get("language"):
            return self.write_text(400, "Only one of context_id or language can be provided")
        context = self._context(body)
        # A client that leaves cancels the task, which interrupts the code.
        self._running = asyncio.ensure_future(self._stream(context, body["code"], envs))
        with contextlib.suppress(asyncio.CancelledError, tornado.iostream.StreamClosedError):
            await self._running

    def on_connection_close(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def _context(self, body: dict[str, Any]) -> Context:
        if context_id := body.get("context_id"):
            return self.contexts.get(context_id)
        return self.contexts.default(normalised(body.get("language")))

    async def _stream(self, context: Context, code: str, envs: dict[str, str] | None) -> None:
        self.set_header("Content-Type", "application/json")
        try:
            async with contextlib.aclosing(context.execute(code, envs)) as stream:
                async for event in stream:
                    await self._send(event)
        except (KernelStartError, UnknownContextError) as error:
            if not self._headers_written:
                raise  # as a status
            await self._send(events.error("UnexpectedEndOfExecution", str(error)))
            await self._send(events.END)

    async def _send(self, event: events.Event) -> None:
        is_shown = events.NOTEBOOK_HEADER in self.request.headers
        event = (events.for_notebook if is_shown else events.for_program)(event)
        self.write(events.encode(event))  # pyright: ignore[reportUnknownMemberType] - tornado's dict
        await self.flush()


def _is_text_map(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, dict):
        return False
    return all(isinstance(item, str) for item in cast("dict[str, Any]", value).values())


def serve(listener: socket.socket, kernel_zygote: socket.socket, envs_path: str | None) -> int:
    """Serve until the kernel zygote is gone or SIGTERM; the exit status."""
    return asyncio.run(_serve(listener, kernel_zygote, SandboxVariables(envs_path)))


async def _serve(
    listener: socket.socket, kernel_zygote: socket.socket, variables: SandboxVariables
) -> int:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    launcher = Launcher(kernel_zygote)
    contexts = Contexts(launcher, variables, os.environ.get("HOME") or "/")
    listener.setblocking(False)
    server = tornado.httpserver.HTTPServer(_application(contexts), max_body_size=MAX_BODY)
    server.add_socket(listener)
    # The first execution is nearly always Python: have its kernel ready.
    warming = asyncio.ensure_future(contexts.default("python").ready())
    ending = [asyncio.ensure_future(event.wait()) for event in (stopped, launcher.lost)]
    await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
    for task in (warming, *ending):
        task.cancel()
    await asyncio.gather(warming, *ending, return_exceptions=True)
    server.stop()
    await contexts.aclose()
    return 0 if stopped.is_set() else 1


def _application(contexts: Contexts) -> tornado.web.Application:
    shared = {"contexts": contexts}
    return tornado.web.Application(
        [
            (r"/health", HealthHandler, shared),
            (r"/execute", ExecuteHandler, shared),
            (r"/contexts", ContextsHandler, shared),
            (r"/contexts/([^/]+)", ContextHandler, shared),
            (r"/contexts/([^/]+)/restart", RestartHandler, shared),
        ],
        log_function=_log_nothing,
    )


def _log_nothing(_handler: tornado.web.RequestHandler) -> None:
    """The sandbox's log is not for requests."""
