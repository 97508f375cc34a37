"""Parses the lines of the magics: what is wrong with one is said in one line."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, Final, NoReturn

from sbx_jupyter.magics.errors import MagicError

LANGUAGES: Final = {
    "python": "python",
    "py": "python",
    "bash": "bash",
    "sh": "bash",
    "javascript": "javascript",
    "js": "javascript",
    "typescript": "typescript",
    "ts": "typescript",
    "r": "r",
    "java": "java",
}


class HelpShown(Exception):
    """``--help`` was given, and the help was printed."""


class Parser(argparse.ArgumentParser):
    """A parser that raises ``MagicError`` where argparse would end the process."""

    def __init__(self, prog: str, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(prog=prog, allow_abbrev=False, **options)
        self.color = False
        """Python 3.14 colours help where the environment asks for it, as kernels do."""

    def error(self, message: str) -> NoReturn:
        raise MagicError(f"{message} ({self.prog} --help shows what there is)")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpShown(message or "")

    def options(self) -> list[str]:
        """The options by their long names."""
        return [
            option
            for action in self._actions
            for option in action.option_strings
            if option.startswith("--")
        ]


def add_connection(parser: Parser) -> None:
    """Add ``--connection`` to a magic."""
    parser.add_argument(
        "--connection",
        metavar="NAME",
        help="look for and create sandboxes on this connection of c.SbxExtension.connections, or "
        "local (default: the one that the notebook's server uses)",
    )


def split(line: str) -> list[str]:
    """The words of a line. Raises ``MagicError`` for a quote that is not closed."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise MagicError(f"cannot read {line.strip()!r}: {str(error).lower()}") from None


def seconds(text: str) -> float:
    """A time as ``30``, ``90s``, ``5m`` or ``2h``, in seconds."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        value = float(number) * unit
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 30, 90s, 5m or 2h") from None
    if not 0 <= value < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range")
    return value


def names(text: str) -> list[str]:
    """Names of variables, separated by commas."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    for name in found:
        variable(name)
    return found


def variable(text: str) -> str:
    """The name of a variable."""
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a variable")
    return text
