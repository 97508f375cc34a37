"""The client of a sandbox's interpreter: runs code, and manages its contexts (interface 5)."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import quote

import msgspec

from sbx_jupyter.client.api.transport import raise_for_status, translated_errors
from sbx_jupyter.client.cleanup import shielded
from sbx_jupyter.client.code.events import LineDecoder, decode_event, is_end
from sbx_jupyter.client.code.execution import (
    Context,
    Event,
    Execution,
    ExecutionError,
    OutputMessage,
    Recorder,
    Result,
)
from sbx_jupyter.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    SbxError,
    UnavailableError,
)
from sbx_jupyter.protocol.access import NOTEBOOK_HEADER, USAGE_HEADER
from sbx_jupyter.protocol.diff import CodeUsage
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import httpx

    from sbx_jupyter.client.api.runtime import RuntimeClient

    T = TypeVar("T")
    Handler = Callable[[T], Awaitable[Any] | Any]
    Measure = Literal["usage", "changes"]

DEFAULT_TIMEOUT: Final = 300.0
_SILENCE: Final = 60.0
"""Seconds; the interpreter sends a sign of life every five."""
_MEASURING: Final = 30.0
"""Seconds from the end of the code to the line that says what it used."""
_MAX_ANSWER: Final = 1024 * 1024
"""Bytes about contexts."""


class CodeStream:
    """The events of one run of code. Closing it before the end interrupts the code."""

    def __init__(self, response: httpx.Response, deadline: float | None, timeout: float) -> None:
        self.usage: CodeUsage | None = None
        """Resources the code used: set at the end if requested and reported by the deployment."""
        self._response = response
        self._is_measured = USAGE_HEADER in response.headers
        self._has_run = False
        self._last_line = b""
        self._chunks = response.aiter_raw()
        self._lines = LineDecoder()
        self._deadline = deadline
        self._timeout = timeout
        self._ended = False

    async def receive(self) -> list[tuple[Event, int]] | None:
        """Wait for events; ``None`` at the end. Each comes with its size in bytes.

        Raises ``DeadlineExceededError`` when the time is over and ``UnavailableError`` when the
        connection breaks; both close the stream.
        """
        while not self._ended:
            if self._has_run:
                await self._read_usage()
                break
            try:
                async with asyncio.timeout_at(self._deadline):
                    with translated_errors():
                        chunk = await anext(self._chunks, None)
                events = self._decode(chunk)
            except TimeoutError:
                await self.aclose()
                raise DeadlineExceededError(
                    f"the code ran longer than {self._timeout:g} s and was interrupted"
                ) from None
            except BaseException:
                await self.aclose()
                raise
            if events:
                return events
        return None

    async def aclose(self) -> None:
        """Interrupt the code if it runs."""
        self._ended = True
        with shielded():
            await self._response.aclose()

    async def _read_usage(self) -> None:
        """Read the last line of the answer, which the engine adds to those of the sandbox."""
        with contextlib.suppress(TimeoutError, SbxError, msgspec.DecodeError):
            async with asyncio.timeout(_MEASURING):
                with translated_errors():
                    async for chunk in self._chunks:
                        self._decode(chunk)
                self.usage = msgspec.json.decode(self._last_line, type=CodeUsage)
        self._ended = True

    def _decode(self, chunk: bytes | None) -> list[tuple[Event, int]]:
        if chunk is None:
            raise UnavailableError("the output broke off: the sandbox or its interpreter ended")
        found: list[tuple[Event, int]] = []
        for line in self._lines.feed(chunk):
            if self._has_run:
                self._last_line = line
            elif is_end(line):
                self._has_run = True
                self._ended = not self._is_measured
            elif (event := decode_event(line)) is not None:
                found.append((event, len(line)))
        return found


class CodeRunner:
    """The methods of a sandbox that use its interpreter, which starts at its first use."""

    _runtime: RuntimeClient

    async def run_code(
        self,
        code: str,
        language: str | None = None,
        context: Context | str | None = None,
        on_stdout: Handler[OutputMessage] | None = None,
        on_stderr: Handler[OutputMessage] | None = None,
        on_result: Handler[Result] | None = None,
        on_error: Handler[ExecutionError] | None = None,
        envs: Mapping[str, str] | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> Execution:
        """Run code in a context, or in the shared one of a language (default: Python).

        Variables stay from one call to the next. Code that fails is a result with an ``error``, not
        an exception. After ``timeout`` seconds (default: 300; 0: never), and when this call is
        cancelled, the code is interrupted. ``request_timeout`` bounds the wait for the interpreter
        to take the code. Raises ``DeadlineExceededError``, ``NotFoundError`` for an unknown context
        or a sandbox that has ended, ``InvalidArgumentError`` for both a language and a context.
        """
        recorder = Recorder()
        handlers = Handlers(on_stdout, on_stderr, on_result, on_error)
        stream = await self.start_code(code, language, context, envs, timeout, request_timeout)
        async with contextlib.aclosing(stream):
            while (events := await stream.receive()) is not None:
                for event, size in events:
                    recorder.add(event, size)
                    answer = handlers.call(event)
                    if inspect.isawaitable(answer):
                        await answer
        return recorder.finish()

    async def start_code(
        self,
        code: str,
        language: str | None = None,
        context: Context | str | None = None,
        envs: Mapping[str, str] | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
        measure: Measure | None = None,
    ) -> CodeStream:
        """Like ``run_code``, but returns the events as they come.

        ``measure`` requests what the code uses, and for ``changes`` also which files differ from
        the template; see ``CodeStream.usage``.
        """
        if language and context:
            raise InvalidArgumentError("give a context or a language, not both")
        timeout = DEFAULT_TIMEOUT if timeout is None else timeout
        deadline = asyncio.get_running_loop().time() + timeout if timeout else None
        body = {
            "code": code,
            "context_id": None if context is None else _id(context),
            "language": language,
            "env_vars": None if envs is None else dict(envs),
        }
        more = {NOTEBOOK_HEADER: "1"}
        if measure is not None:
            more[USAGE_HEADER] = measure
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._send_interpreter(
                    "POST", "/execute", body, silence=request_timeout or _SILENCE, more=more
                )
        except TimeoutError:
            raise DeadlineExceededError(
                f"the interpreter did not take the code within {timeout:g} s"
            ) from None
        return CodeStream(response, deadline, timeout)

    async def create_code_context(
        self,
        cwd: str | None = None,
        language: str | None = None,
        request_timeout: float | None = None,
    ) -> Context:
        """Start a context in a directory (default: the user's home) for a language (Python).

        Raises ``InternalError`` with the reason when it cannot start, ``ResourceExhaustedError``
        when there are too many.
        """
        body = {"cwd": cwd, "language": language}
        given = {name: value for name, value in body.items() if value}
        return _decoded(
            await self._call_interpreter("POST", "/contexts", given, request_timeout), Context
        )

    async def list_code_contexts(self) -> list[Context]:
        """List the contexts, among them the shared ones of each language."""
        return _decoded(await self._call_interpreter("GET", "/contexts"), list[Context])

    async def restart_code_context(self, context: Context | str) -> None:
        """Start the interpreter of a context anew, without variables. Raises ``NotFoundError``."""
        await self._call_interpreter("POST", f"/contexts/{_segment(context)}/restart", {})

    async def remove_code_context(self, context: Context | str) -> None:
        """End a context; code that runs in it ends with an error. Raises ``NotFoundError``."""
        await self._call_interpreter("DELETE", f"/contexts/{_segment(context)}")

    async def _call_interpreter(
        self, method: str, path: str, body: Any = None, timeout: float | None = None
    ) -> bytes:
        response = await self._send_interpreter(method, path, body, silence=timeout)
        answer = bytearray()
        with translated_errors():
            try:
                # As it comes: a hostile program may answer in the interpreter's place.
                async for chunk in response.aiter_raw():
                    answer += chunk
                    if len(answer) > _MAX_ANSWER:
                        raise UnavailableError("the interpreter answered with more than expected")
                return bytes(answer)
            finally:
                with shielded():
                    await response.aclose()

    async def _send_interpreter(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        silence: float | None,
        more: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        headers = self._runtime.headers(port=INTERPRETER_PORT) | dict(more or {})
        headers |= {"Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        response = await self._runtime.transport.open(
            method,
            self._runtime.url(path, INTERPRETER_PORT),
            headers=headers,
            content=None if body is None else msgspec.json.encode(body),
            timeout=silence,
        )
        return await raise_for_status(response)


class Handlers:
    """The callbacks of one run of code."""

    def __init__(
        self,
        on_stdout: Handler[OutputMessage] | None,
        on_stderr: Handler[OutputMessage] | None,
        on_result: Handler[Result] | None,
        on_error: Handler[ExecutionError] | None,
    ) -> None:
        self._on_output = (on_stdout, on_stderr)
        self._on_result = on_result
        self._on_error = on_error

    def call(self, event: Event) -> Any:
        """Call the handler of an event, if there is one, and return its answer."""
        match event:
            case OutputMessage():
                handler = self._on_output[event.error]
                return None if handler is None else handler(event)
            case Result():
                return None if self._on_result is None else self._on_result(event)
            case ExecutionError():
                return None if self._on_error is None else self._on_error(event)
            case int():
                return None


def _id(context: Context | str) -> str:
    return context if isinstance(context, str) else context.id


def _segment(context: Context | str) -> str:
    return quote(_id(context), safe="")


def _decoded(raw: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        raise UnavailableError(
            f"the interpreter answered with something else than expected: {error}"
        ) from None
