"""Cells that run in the background, behind a handle."""

from __future__ import annotations

import concurrent.futures
import time
from typing import TYPE_CHECKING, Any

from sbx_jupyter.client.code.execution import Execution, OutputMessage, Recorder
from sbx_jupyter.display import reports
from sbx_jupyter.display.text import duration, one_line, size
from sbx_jupyter.errors import SbxError
from sbx_jupyter.magics.errors import MagicError

if TYPE_CHECKING:
    from sbx_jupyter.client.blocking import Portal
    from sbx_jupyter.client.sandbox import AsyncSandbox
    from sbx_jupyter.magics.cells.running import Job


class BackgroundRun:
    """Code that runs in a sandbox while the notebook goes on.

    Shown in a notebook, it says how far the code is. ``result`` waits for its end.
    """

    def __init__(self, portal: Portal, box: AsyncSandbox, label: str, job: Job) -> None:
        self._label = label
        self._began = time.monotonic()
        self._ended: float | None = None
        self._recorder = Recorder()
        self._printed = 0
        self._last_line = ""
        self._future = portal.start(self._run(box, job))

    def __repr__(self) -> str:
        return f"BackgroundRun({self._label!r}, {self.progress()})"

    @property
    def done(self) -> bool:
        """Whether the code has ended, failed or was cancelled."""
        return self._future.done()

    def progress(self) -> str:
        """Describe how long it runs, how much it printed, and the last line of that."""
        seconds = (self._ended or time.monotonic()) - self._began
        state = "runs" if not self.done else "was cancelled" if self._cancelled else "ended"
        last = f": {one_line(self._last_line)}" if self._last_line else ""
        return f"{state} ({duration(seconds)}), {size(self._printed)} printed{last}"

    def cancel(self) -> bool:
        """Interrupt the code; false if it has ended."""
        return self._future.cancel()

    def result(self, timeout: float | None = None) -> Execution:
        """Wait for the end, at most ``timeout`` seconds, and return the execution.

        Code that failed is an execution with an ``error``. Raises ``TimeoutError`` when it still
        runs, ``MagicError`` when it was cancelled or the sandbox ended.
        """
        try:
            return self._future.result(timeout)
        except concurrent.futures.CancelledError:
            raise MagicError(f"the code in {self._label} was cancelled") from None
        except SbxError as error:
            raise MagicError(f"{self._label}: {one_line(error.message, 600)}") from None

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        plain = f"{self._label} {self.progress()}"
        html = reports.card(f"{self._label} in the background", [("state", self.progress())])
        if self.done and not self._cancelled and self._future.exception() is None:
            execution: Any = self._future.result()
            html += execution._repr_html_()
        return {"text/plain": plain, "text/html": html}

    @property
    def _cancelled(self) -> bool:
        return self._future.cancelled()

    async def _run(self, box: AsyncSandbox, job: Job) -> Execution:
        try:
            stream = await box.start_code(
                job.text(), job.language_for_context, job.context, timeout=job.timeout
            )
            try:
                while (events := await stream.receive()) is not None:
                    for event, event_size in events:
                        self._recorder.add(event, event_size)
                        if isinstance(event, OutputMessage):
                            self._printed += len(event.line)
                            if event.line.strip():
                                self._last_line = event.line.strip()[-400:].splitlines()[-1]
            finally:
                await stream.aclose()
            return self._recorder.finish()
        finally:
            self._ended = time.monotonic()
