"""``%%sbx``: runs a cell in a sandbox."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.errors import SbxError
from sbx_jupyter.magics.errors import MagicError, one_line_errors
from sbx_jupyter.magics.parsing import LANGUAGES, Parser, seconds, variable
from sbx_jupyter.magics.running import Job, Runner
from sbx_jupyter.magics.session import check_alive

if TYPE_CHECKING:
    from sbx_jupyter.magics.session import Known, Session

_EXAMPLES: Final = """
examples:
  %%sbx                          Python in the sandbox in use, which is made if there is none
  %%sbx box bash                 bash in the sandbox "box", or in the one in the variable box
  %%sbx -i data -o answer        send the variable data first, and fetch answer at the end
  %%sbx --timeout 5m --out run   interrupt after five minutes, keep the Execution in run
"""


def _parser() -> Parser:
    parser = Parser(
        "%%sbx",
        description="Run this cell in a sandbox. Nothing of it ever runs in the notebook's kernel.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "where",
        nargs="*",
        metavar="NAME LANGUAGE",
        help="a sandbox by name, id or variable (default: the one in use), and python (default), "
        "bash or javascript",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="TIME",
        help="interrupt the code after this time, such as 30 or 5m (default: 5m; 0: never)",
    )
    parser.add_argument("--context", metavar="NAME", help="run with variables of their own")
    parser.add_argument(
        "--out", type=variable, metavar="VAR", help="keep the Execution in this variable"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--stream", action="store_true", help="show output as it comes (the default)"
    )
    shown.add_argument("--quiet", action="store_true", help="show errors only")
    return parser


PARSER: Final = _parser()


@dataclass(frozen=True, slots=True)
class CellOptions:
    """The line of a cell magic."""

    name: str | None = None
    language: str = "python"
    context: str | None = None
    timeout: float | None = None
    out: str | None = None
    quiet: bool = False
    extra: argparse.Namespace = field(default_factory=argparse.Namespace)


def parse(line: str) -> CellOptions:
    """Parse the line after ``%%sbx``. Raises ``MagicError`` and ``HelpShown``."""
    found = PARSER.parse_line(line)
    words: list[str] = found.where
    language = "python"
    if words and words[-1].lower() in LANGUAGES:
        language = LANGUAGES[words.pop().lower()]
    if len(words) > 1:
        raise MagicError(
            f"{words[1]!r} is no language; there are python, bash and javascript "
            "(%%sbx --help shows what there is)"
        )
    return CellOptions(
        name=words[0] if words else None,
        language=language,
        context=found.context,
        timeout=found.timeout,
        out=found.out,
        quiet=found.quiet,
        extra=found,
    )


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
        with one_line_errors():
            known = self._session.find(options.name)
            return self._run_in(known, options, code)

    def _run_in(self, known: Known, options: CellOptions, code: str) -> None:
        job = self._job(known, options, code)
        runner = Runner(self._session, known)
        outcome = runner.run(job)
        if options.out:
            self._shell.user_ns[options.out] = outcome.execution
        self._session.extend(known)
        runner.finish(job, outcome)

    def _job(self, known: Known, options: CellOptions, code: str) -> Job:
        context = None
        if options.context:
            try:
                context = self._session.context(known, options.context, options.language)
            except SbxError as error:
                check_alive(self._session, known, error)
                raise
        return Job(
            code=code,
            language=options.language,
            # The count itself is raised before a cell runs by some versions, after it by others.
            cell=len(self._shell.history_manager.input_hist_parsed) - 1,
            context=context,
            timeout=options.timeout,
            quiet=options.quiet,
        )
