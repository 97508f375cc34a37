"""``%%sbx``: runs a cell in a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbx_jupyter.client.blocking import Portal
from sbx_jupyter.errors import NotFoundError, SbxError
from sbx_jupyter.magics.cells.background import BackgroundRun
from sbx_jupyter.magics.cells.cell_options import CellOptions, parse
from sbx_jupyter.magics.cells.changes import change_tree
from sbx_jupyter.magics.cells.grid import GridCell, run_in_all
from sbx_jupyter.magics.cells.running import Job, Runner
from sbx_jupyter.magics.errors import InterruptedCodeError, MagicError, one_line_errors
from sbx_jupyter.magics.screen import show_html
from sbx_jupyter.magics.session import check_alive
from sbx_jupyter.magics.transfer import Transfer

if TYPE_CHECKING:
    from sbx_jupyter.magics.cells.usage import Usage
    from sbx_jupyter.magics.known import Known
    from sbx_jupyter.magics.session import Session


class CellMagic:
    """Runs cells for one notebook."""

    def __init__(self, session: Session, shell: Any) -> None:
        self._session = session
        self._shell = shell

    def run(self, line: str, code: str) -> Any:
        """Run the cell. Raises ``MagicError``, and what the code in the sandbox raised."""
        options = parse(line)
        if not code.strip():
            raise MagicError("the cell is empty: there is nothing to run")
        with one_line_errors(), self._session.on_connection(options.connection):
            if options.all:
                return self._run_in_all(options, code)
            known = self._session.find(options.name)
            job = self._prepared(known, options, code)
            if options.background:
                return self._start(known, options, job)
            return self._run_in(known, options, job)

    def _run_in(self, known: Known, options: CellOptions, job: Job) -> None:
        runner = Runner(self._session, known)
        outcome = runner.run(job)
        if options.out:
            self._shell.user_ns[options.out] = outcome.execution
        notes: list[str] = []
        if options.snapshot:
            known.last_snapshot = known.box.snapshot().snapshot_id
            notes.append(f"snapshot {known.last_snapshot}")
            if known is self._session.current:
                known.remember()
        elif self._session.checkpoints.is_on:
            self._session.checkpoints.take(known, job.cell)
            notes.append(f"checkpoint {job.cell}")
        if outcome.execution.error is None and options.outputs:
            moved = Transfer(known.box, job.language, job.context).fetch(options.outputs)
            self._shell.user_ns.update(moved)
            known.changed = None
        if options.diff:
            self._show_changes(known, outcome.usage)
        self._session.extend(known)
        runner.finish(job, outcome, *notes)

    def _start(self, known: Known, options: CellOptions, job: Job) -> BackgroundRun:
        run = BackgroundRun(Portal.current(), known.box.on_portal, known.label, job)
        if options.out:
            self._shell.user_ns[options.out] = run
        return run

    def _run_in_all(self, options: CellOptions, code: str) -> None:
        members = self._session.find_all(options.name)
        jobs = [self._prepared(known, options, code) for known in members]
        try:
            cells = run_in_all(members, jobs)
        except KeyboardInterrupt:
            raise InterruptedCodeError("the code in all forks was interrupted") from None
        if options.out:
            self._shell.user_ns[options.out] = {cell.label: cell.execution for cell in cells}
        if options.diff:
            for known, cell in zip(members, cells, strict=True):
                if cell.usage is not None:
                    self._show_changes(known, cell.usage, cell.label)
        failed = [cell.label for cell in cells if cell.failure or _has_error(cell)]
        if failed:
            raise MagicError(
                f"the code failed in {len(failed)} of {len(cells)}: {', '.join(failed)}"
            )

    def _prepared(self, known: Known, options: CellOptions, code: str) -> Job:
        """The job for a sandbox, after its variables are sent there."""
        context = None
        try:
            if options.context:
                context = self._session.context(known, options.context, options.language)
            if options.inputs:
                transfer = Transfer(known.box, options.language, context)
                transfer.send(options.inputs, self._shell.user_ns)
                known.changed = None
        except SbxError as error:
            check_alive(self._session, known, error)
            if isinstance(error, NotFoundError) and options.context:
                self._session.forget_context(known, options.context)
            raise
        return Job(
            code=code,
            language=options.language,
            # The count itself is raised before a cell runs by some versions, after it by others.
            cell=len(self._shell.history_manager.input_hist_parsed) - 1,
            context=context,
            timeout=options.timeout,
            quiet=options.quiet,
            diff=options.diff,
        )

    def _show_changes(self, known: Known, usage: Usage, label: str = "") -> None:
        if usage.changes is None:
            raise MagicError(f"{known.label}: this deployment does not tell what changed")
        show_html(*change_tree(known.box, usage.changes, label=label))


def _has_error(cell: GridCell) -> bool:
    return cell.execution is not None and cell.execution.error is not None
