"""Completes the lines of the magics: subcommands, options, sandboxes and languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbx_jupyter.magics.cells.cell_options import PARSER
from sbx_jupyter.magics.commands.registry import COMMANDS

if TYPE_CHECKING:
    from sbx_jupyter.magics.session import Session

_LANGUAGES: Final = ("python", "bash", "javascript")


def complete(session: Session, line: str) -> list[str]:
    """The words that may stand at the end of a line."""
    text = line.lstrip()
    words = text.split()
    if text.startswith("%%"):
        return [*PARSER.options(), *session.names(), *_LANGUAGES]
    is_first = len(words) == 1 or (len(words) == 2 and not text.endswith(" "))
    if is_first:
        return [*COMMANDS, "--help"]
    command = COMMANDS.get(words[1])
    if command is None:
        return []
    return [*command.parser.options(), *session.names()]
