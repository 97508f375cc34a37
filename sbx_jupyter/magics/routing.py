"""Sends every cell of a notebook to a sandbox, and refuses cells that miss the magic by a hair.

An input transformer of IPython takes the lines of a cell and returns the lines to run instead.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOCAL: Final = re.compile(r"%%local[ \t]*\n?\Z")
_LINE_MAGIC: Final = re.compile(r"%sbx(\s|\Z)")
_CELL_MAGIC: Final = re.compile(r"%%sbx(\s|\Z)")
_NEARLY: Final = re.compile(r"\s*%+\s*%*\s*sbx\b", re.IGNORECASE)
_HELP: Final = re.compile(r"\s*(\?{1,2}%{1,2}sbx|%{1,2}sbx\?{1,2})\s*\Z")
_APART: Final = (
    "while cells run in a sandbox, keep %sbx lines in a cell of their own; nothing of this cell "
    "was run"
)


class Routing:
    """Decides where the cells of one notebook run."""

    def __init__(self) -> None:
        self.is_on = False
        self.line = ""
        """The arguments of ``%%sbx`` for every cell, while it is on."""

    def turn_on(self, line: str) -> None:
        """Run every cell as after ``%%sbx LINE``."""
        self.line, self.is_on = line, True

    def transform(self, lines: list[str]) -> list[str]:
        """The lines to run for the lines of a cell.

        While it is on, only ``%%local`` cells and cells of nothing but ``%sbx`` lines stay here.
        A cell that would run here though it was surely not meant to becomes an error.
        """
        if _is_called_by_a_magic():
            # The code of a cell that was let through already, as %%time runs it.
            return lines
        code = _significant(lines)
        if not code or all(_HELP.match(line) for line in code):
            return lines
        if _LOCAL.match(code[0]):
            return _without_first(lines, code)
        if _CELL_MAGIC.match(code[0]):
            return _from(lines, code[0])
        if _NEARLY.match(code[0]) and not _LINE_MAGIC.match(code[0].lstrip()):
            return _refused(
                f"{code[0].strip().split()[0]!r} is not %%sbx, so nothing of this cell was run"
            )
        if not self.is_on:
            return lines
        if _LINE_MAGIC.match(code[0].lstrip()):
            if all(_LINE_MAGIC.match(line.lstrip()) for line in code):
                return lines
            return _refused(_APART)
        if any(_LINE_MAGIC.match(line) for line in code):
            # The sandbox knows no such magic, and would run the other lines.
            return _refused(_APART)
        return [f"get_ipython().run_cell_magic('sbx', {self.line!r}, {''.join(lines)!r})\n"]


def _significant(lines: Sequence[str]) -> list[str]:
    """The lines that are neither empty nor a comment."""
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _from(lines: list[str], first: str) -> list[str]:
    """The lines from the first one with code on: a cell magic must come first."""
    return lines[lines.index(first) :]


def _without_first(lines: list[str], code: list[str]) -> list[str]:
    """The lines without the first one with code; a comment stands there, so that lines count."""
    at = lines.index(code[0])
    if len(code) > 1 and code[1].startswith("%%"):  # which must come first
        return lines[lines.index(code[1]) :]
    return [*lines[:at], "# %%local\n", *lines[at + 1 :]]


def _refused(message: str) -> list[str]:
    """Code that raises ``MagicError``; raising here would also break checks for completeness."""
    return [f"raise __import__({__name__!r}, fromlist=['x']).MagicError({message!r})\n"]


def _is_called_by_a_magic() -> bool:
    """Whether a magic of this very call chain asks, and not a front end with a new cell.

    The frames are proof; a flag could stay behind after an error and let a cell through.
    """
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage] - no public way is as quick
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if name in ("run_cell_magic", "run_line_magic") and file.endswith("interactiveshell.py"):
            return True
        if name == "do_execute":  # a front end asks, perhaps while another cell still runs
            return False
        frame = frame.f_back
    return False
