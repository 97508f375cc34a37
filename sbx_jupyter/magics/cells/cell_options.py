"""The line after ``%%sbx``: where a cell runs, and how."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from sbx_jupyter.magics.errors import MagicError
from sbx_jupyter.magics.parsing import (
    LANGUAGES,
    Parser,
    add_connection,
    names,
    seconds,
    split,
    variable,
)

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
    _add_input_and_output(parser)
    _add_run(parser)
    _add_display(parser)
    return parser


def _add_input_and_output(parser: Parser) -> None:
    parser.add_argument(
        "where",
        nargs="*",
        metavar="NAME LANGUAGE",
        help="a sandbox by name, id or variable (default: the one in use), and python (default), "
        "bash or javascript",
    )
    parser.add_argument(
        "-i",
        "--input",
        action="extend",
        type=names,
        default=[],
        metavar="VARS",
        help="variables to set in the sandbox first: plain values, tables, arrays, Paths of files",
    )
    parser.add_argument(
        "-o",
        "--output",
        action="extend",
        type=names,
        default=[],
        metavar="VARS",
        help="variables to fetch from the sandbox at the end",
    )


def _add_run(parser: Parser) -> None:
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="TIME",
        help="interrupt the code after this time, such as 30 or 5m (default: 5m; 0: never)",
    )
    add_connection(parser)
    parser.add_argument("--context", metavar="NAME", help="run with variables of their own")
    parser.add_argument(
        "--out", type=variable, metavar="VAR", help="keep the Execution in this variable"
    )
    parser.add_argument(
        "--async",
        action="store_true",
        dest="background",
        help="run in the background; the value of the cell, and of --out, is a handle",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="run in all forks at once, outputs side by side; in each, SBX_FORK in the "
        "environment is its number",
    )


def _add_display(parser: Parser) -> None:
    parser.add_argument("--diff", action="store_true", help="show which files the cell changed")
    parser.add_argument(
        "--snapshot", action="store_true", help="capture the sandbox's files after the cell"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--stream", action="store_true", help="show output as it comes (the default)"
    )
    shown.add_argument("--quiet", action="store_true", help="show errors only")


PARSER: Final = _parser()


@dataclass(frozen=True, slots=True)
class CellOptions:
    """The line of a cell magic."""

    name: str | None
    language: str
    connection: str | None
    context: str | None
    timeout: float | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    out: str | None
    quiet: bool
    background: bool
    all: bool
    diff: bool
    snapshot: bool


@functools.lru_cache(maxsize=64)
def parse(line: str) -> CellOptions:
    """Parse the line after ``%%sbx``. Raises ``MagicError`` and ``HelpShown``.

    Cells that run again have the same line.
    """
    found, rest = PARSER.parse_known_args(split(line))
    # argparse takes the words without an option from one place only.
    words: list[str] = [*found.where, *(word for word in rest if not word.startswith("-"))]
    if unknown := [word for word in rest if word.startswith("-")]:
        PARSER.error(f"unrecognized arguments: {' '.join(unknown)}")
    language = "python"
    if words and words[-1].lower() in LANGUAGES:
        language = LANGUAGES[words.pop().lower()]
    if len(words) > 1:
        raise MagicError(
            f"{words[1]!r} is no language; there are python, bash and javascript "
            "(%%sbx --help shows what there is)"
        )
    options = CellOptions(
        name=words[0] if words else None,
        language=language,
        connection=found.connection,
        context=found.context,
        timeout=found.timeout,
        inputs=tuple(found.input),
        outputs=tuple(found.output),
        out=found.out,
        quiet=found.quiet,
        background=found.background,
        all=found.all,
        diff=found.diff,
        snapshot=found.snapshot,
    )
    _check(options)
    return options


def _check(options: CellOptions) -> None:
    """Raise ``MagicError`` for options that do not go together."""
    if options.background and (options.outputs or options.all or options.diff or options.snapshot):
        raise MagicError("--async does not go with -o, --all, --diff or --snapshot")
    if options.all and (options.outputs or options.snapshot or options.context):
        raise MagicError("--all does not go with -o, --context or --snapshot")
    if options.outputs and options.language != "python":
        raise MagicError(f"-o fetches variables of Python, not of {options.language}")
