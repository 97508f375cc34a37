"""Runs one cell in several sandboxes at once and shows the outputs side by side."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.client.code.execution import Execution, Recorder
from sbx_jupyter.display.formulas import UNDRAWN
from sbx_jupyter.display.reports import BAD, MUTED
from sbx_jupyter.display.text import escaped, one_line
from sbx_jupyter.errors import SbxError
from sbx_jupyter.magics.cells.footer import parts
from sbx_jupyter.magics.cells.usage import Meter, Usage
from sbx_jupyter.magics.screen import show_html

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Sequence

    from sbx_jupyter.magics.cells.running import Job
    from sbx_jupyter.magics.known import Known
    from sbx_jupyter.protocol.diff import CodeUsage

NOTE: Final = "Forks have files, not memory: each starts without variables unless -i sends them."

FORK_VARIABLE: Final = "SBX_FORK"
"""The variable of the environment with the number of the fork, from 1."""


@dataclass(slots=True)
class GridCell:
    """Result of the code in one of the sandboxes; ``failure`` says why it did not run."""

    label: str
    execution: Execution | None = None
    usage: Usage | None = None
    failure: str = ""


def run_in_all(members: Sequence[Known], jobs: Sequence[Job]) -> list[GridCell]:
    """Run a job in each sandbox at once; the grid fills as they end.

    An interrupt reaches the code in all of them.
    """
    portal = Portal.current()
    cells = [GridCell(known.label) for known in members]
    shown = show_html(*_drawn(cells), display_id=True)
    runs = [
        portal.start(_run(known, job, cell, number))
        for number, (known, job, cell) in enumerate(zip(members, jobs, cells, strict=True), 1)
    ]
    try:
        pending: set[concurrent.futures.Future[None]] = set(runs)
        while pending:
            # Waits on the portal, so that an interrupt ends the wait.
            portal.call(_first_of(pending))
            pending = {run for run in pending if not run.done()}
            _update(shown, cells)
    except BaseException:
        for run in runs:
            run.cancel()
        _update(shown, cells)
        raise
    return cells


async def _first_of(runs: set[concurrent.futures.Future[None]]) -> None:
    """Wait until one of them has ended; cancelling the wait cancels none."""
    waiting = [asyncio.shield(asyncio.wrap_future(run)) for run in runs]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)


async def _run(known: Known, job: Job, cell: GridCell, number: int) -> None:
    box = known.box.on_portal
    meter = Meter(box, with_changes=True)
    recorder = Recorder()
    try:
        measured: CodeUsage | None = None
        try:
            stream = await box.start_code(
                job.text(),
                job.language_for_context,
                job.context,
                envs={FORK_VARIABLE: str(number)},
                timeout=job.timeout,
                measure=await meter.start(),
            )
            async with contextlib.aclosing(stream):
                while (events := await stream.receive()) is not None:
                    for event, size in events:
                        recorder.add(event, size)
            measured = stream.usage
        finally:
            cell.usage = await meter.stop(measured)
            cell.execution = recorder.finish()
    except SbxError as error:
        cell.failure = one_line(error.message, 600)


def _update(shown: Any, cells: Sequence[GridCell]) -> None:
    html, plain = _drawn(cells)
    shown.update({"text/html": html, "text/plain": plain}, raw=True)


def _drawn(cells: Sequence[GridCell]) -> tuple[str, str]:
    style = "display:grid;grid-template-columns:repeat(auto-fit,minmax(240px,1fr));gap:8px"
    html = "".join(_box(cell) for cell in cells)
    plain = "\n".join(f"{cell.label}: {_facts(cell)}{_text(cell)}" for cell in cells)
    return (
        f'<div class="sbx-Grid" style="{style}">{html}</div><div style="{MUTED}">{NOTE}</div>',
        f"{plain}\n{NOTE}",
    )


def _box(cell: GridCell) -> str:
    # A grid of many drawings repeats what Execution shows of one.
    content: Any = cell.execution._repr_html_() if cell.execution is not None else ""  # pyright: ignore[reportPrivateUsage] - IPython's protocol
    failure = ""
    if cell.failure:
        failure = f'<div class="{UNDRAWN}" style="{BAD}">{escaped(cell.failure)}</div>'
    return (
        '<div style="border:1px solid var(--jp-border-color2,#ccc);border-radius:4px;padding:6px;'
        f'min-width:0;overflow:auto"><b class="{UNDRAWN}">{escaped(cell.label)}</b>'
        f'<div class="{UNDRAWN}" style="{MUTED};font-size:smaller">{escaped(_facts(cell))}</div>'
        f"{content}{failure}</div>"
    )


def _facts(cell: GridCell) -> str:
    if cell.usage is None:
        return cell.failure or "running"
    return " | ".join(parts("", cell.usage)[1:])


def _text(cell: GridCell) -> str:
    execution = cell.execution
    if execution is None:
        return ""
    if execution.error is not None:
        return f"\n  {one_line(f'{execution.error.name}: {execution.error.value}')}"
    shown = ("".join(execution.logs.stdout), execution.text or "")
    return "".join(f"\n  {one_line(text)}" for text in shown if text)
