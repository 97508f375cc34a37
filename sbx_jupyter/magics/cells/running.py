"""Runs the code of one cell in one sandbox and shows what it does."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.client.code.execution import Context, Execution, ExecutionError, Recorder
from sbx_jupyter.display.text import one_line
from sbx_jupyter.errors import SbxError
from sbx_jupyter.magics.cells.footer import footer, frame_links, renumber
from sbx_jupyter.magics.cells.usage import Meter, Usage
from sbx_jupyter.magics.errors import InterruptedCodeError, MagicError, sandboxed_error
from sbx_jupyter.magics.screen import Screen, show_html
from sbx_jupyter.magics.session import check_alive

if TYPE_CHECKING:
    from collections.abc import Generator

    from sbx_jupyter.client.code.execution import Event
    from sbx_jupyter.client.code.runner import CodeStream
    from sbx_jupyter.client.sandbox import AsyncSandbox
    from sbx_jupyter.magics.known import Known
    from sbx_jupyter.magics.session import Session


@dataclass(frozen=True, slots=True)
class Job:
    """The code of a cell and how to run it; ``timeout`` in seconds, 0 for none."""

    code: str
    language: str
    cell: int
    context: Context | None = None
    timeout: float | None = None
    quiet: bool = False
    diff: bool = False

    @property
    def language_for_context(self) -> str | None:
        """The language, unless a context says which it is."""
        return None if self.context is not None else self.language

    def text(self) -> str:
        """The code with the line of the magic in front, so that lines count as in the notebook."""
        if self.language == "python":
            # A cell magic inside must be in the first line.
            return self.code if self.code.startswith("%%") else f"# %%sbx\n{self.code}"
        return f"\n{self.code}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one job."""

    execution: Execution
    usage: Usage


class Runner:
    """Runs jobs in one sandbox."""

    def __init__(self, session: Session, known: Known) -> None:
        self._session = session
        self._known = known
        self._portal = Portal.current()

    def run(self, job: Job) -> Outcome:
        """Run a job; its output appears as it comes. An interrupt reaches the code at once.

        A failing code is an outcome. Raises ``MagicError`` for everything else that fails.
        """
        # Code beside cells may write, too: an explicit list does not blame the cell for it.
        before = None if job.diff else self._known.changed_before(job.cell)
        self._known.changed = None
        meter = Meter(self._known.box.on_portal, with_changes=job.diff, before=before)
        run = _MeasuredRun(self._known.box.on_portal, job, meter)
        recorder = Recorder()
        with self._explained():
            try:
                usage = self._show(run, job, recorder)
            except KeyboardInterrupt:
                raise InterruptedCodeError(
                    f"the code in {self._known.label} was interrupted"
                ) from None
            if meter.after is not None:
                self._known.changed = job.cell, meter.after
        return Outcome(recorder.finish(), usage)

    def _show(self, run: _MeasuredRun, job: Job, recorder: Recorder) -> Usage:
        """Show and record the events of a run up to its end."""
        screen = Screen(quiet=job.quiet)
        try:
            # Each call wakes the thread of the portal and waits for it: they are few.
            found = self._portal.call(run.begin())
            while not isinstance(found, Usage):
                for event, size in found:
                    self._note(job, event)
                    recorder.add(event, size)
                    screen.show(event, size)
                found = self._portal.call(run.advance())
        except BaseException:
            screen.finish()
            self._portal.call(run.aclose())
            raise
        screen.finish()
        return found

    def finish(self, job: Job, outcome: Outcome, *notes: str) -> None:
        """Show the footer, and raise the error that ended the code."""
        error = outcome.execution.error
        if error is not None:
            error = self._renumbered(job, error)
        if not job.quiet:
            show_html(*footer(self._known.label, outcome.usage, *notes))
        if error is not None:
            raise sandboxed_error(error.name, error.value, error.traceback) from None

    def _note(self, job: Job, event: object) -> None:
        """Remember which cell an execution is."""
        if isinstance(event, int):
            self._session.counts[(*self._where(job), event)] = job.cell

    def _renumbered(self, job: Job, error: ExecutionError) -> ExecutionError:
        where = self._where(job)
        counts = {key[2]: cell for key, cell in self._session.counts.items() if key[:2] == where}
        traceback, frames = renumber(error.traceback, counts)
        if frames and not job.quiet:
            show_html(*frame_links(frames))
        return ExecutionError(error.name, error.value, traceback)

    def _where(self, job: Job) -> tuple[str, str]:
        """The sandbox and the context or language by which executions of a job are counted."""
        counter = job.context.id if job.context else job.language
        return self._known.box.sandbox_id, counter

    @contextlib.contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except SbxError as error:
            check_alive(self._session, self._known, error)
            raise MagicError(f"{self._known.label}: {one_line(error.message, 600)}") from None


class _MeasuredRun:
    """One run of code in a sandbox, on the portal, and what it used."""

    def __init__(self, box: AsyncSandbox, job: Job, meter: Meter) -> None:
        self._box = box
        self._job = job
        self._meter = meter
        self._stream: CodeStream | None = None

    async def begin(self) -> list[tuple[Event, int]] | Usage:
        """Send the code; the rest as ``advance``."""
        job = self._job
        measure = await self._meter.start()
        self._stream = await self._box.start_code(
            job.text(),
            job.language_for_context,
            job.context,
            timeout=job.timeout,
            measure=measure,
        )
        return await self.advance()

    async def advance(self) -> list[tuple[Event, int]] | Usage:
        """Wait for events; at the end, what the code used."""
        assert self._stream is not None
        events = await self._stream.receive()
        if events is not None:
            return events
        await self._stream.aclose()
        return await self._meter.stop(self._stream.usage)

    async def aclose(self) -> None:
        """Interrupt the code if it runs, and measure no more."""
        self._meter.close()
        if self._stream is not None:
            await self._stream.aclose()
