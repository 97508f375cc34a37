"""``CodeRunner`` for blocking code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.client.blocking import blocking
from sbx_jupyter.client.code.execution import (
    Context,
    Event,
    Execution,
    ExecutionError,
    OutputMessage,
    Recorder,
    Result,
)
from sbx_jupyter.client.code.runner import CodeRunner, CodeStream, Handlers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbx_jupyter.client.blocking import Portal
    from sbx_jupyter.client.code.runner import Handler


class SyncCodeRunner:
    """The methods of ``CodeRunner`` for a sandbox whose methods block."""

    def _connected(self) -> tuple[Portal, CodeRunner]:
        """Return the portal, and the sandbox on it."""
        raise NotImplementedError

    def run_code(
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

        Does and raises the same as ``AsyncSandbox.run_code``; an interrupt of the caller interrupts
        the code. The callbacks run on the calling thread.
        """
        recorder = Recorder()
        handlers = Handlers(on_stdout, on_stderr, on_result, on_error)
        with self.start_code(code, language, context, envs, timeout, request_timeout) as stream:
            for events in stream:
                for event, size in events:
                    recorder.add(event, size)
                    handlers.call(event)
        return recorder.finish()

    def start_code(
        self,
        code: str,
        language: str | None = None,
        context: Context | str | None = None,
        envs: Mapping[str, str] | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
    ) -> SyncCodeStream:
        """Like ``run_code``, but returns the events as they come."""
        portal, runner = self._connected()
        starting = runner.start_code(code, language, context, envs, timeout, request_timeout)
        return SyncCodeStream(portal, portal.call(starting))

    create_code_context = blocking(CodeRunner.create_code_context)
    list_code_contexts = blocking(CodeRunner.list_code_contexts)
    restart_code_context = blocking(CodeRunner.restart_code_context)
    remove_code_context = blocking(CodeRunner.remove_code_context)


class SyncCodeStream:
    """The events of one run of code: a blocking iterator, whose end by ``close`` interrupts it."""

    def __init__(self, portal: Portal, stream: CodeStream) -> None:
        self._portal = portal
        self._stream = stream

    def __iter__(self) -> Iterator[list[tuple[Event, int]]]:
        while (events := self._portal.call(self._stream.receive())) is not None:
            yield events

    def __enter__(self) -> SyncCodeStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Interrupt the code if it runs."""
        self._portal.call(self._stream.aclose())
