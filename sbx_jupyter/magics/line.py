"""``%sbx``: one subcommand for each thing to do with sandboxes from a cell."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from sbx_jupyter.magics.commands.command import Notebook
from sbx_jupyter.magics.commands.registry import COMMANDS
from sbx_jupyter.magics.errors import MagicError, one_line_errors
from sbx_jupyter.magics.parsing import HelpShown, split
from sbx_jupyter.magics.screen import write

if TYPE_CHECKING:
    from sbx_jupyter.magics.routing import Routing
    from sbx_jupyter.magics.session import Session


class LineMagic:
    """Runs the subcommands for one notebook."""

    def __init__(self, session: Session, routing: Routing, shell: Any) -> None:
        self._notebook = Notebook(session, routing, shell)

    def run(self, line: str) -> None:
        """Run one line. Raises ``MagicError`` and ``HelpShown``."""
        words = split(line)
        if not words:
            raise MagicError("%sbx needs a subcommand; %sbx --help lists them")
        name, *rest = words
        if name in ("--help", "-h", "help"):
            _show_help()
            raise HelpShown
        if (found := COMMANDS.get(name)) is None:
            near = difflib.get_close_matches(name, COMMANDS, 1)
            hint = f"; did you mean {near[0]}?" if near else "; %sbx --help lists them"
            raise MagicError(f"there is no subcommand {name!r}{hint}")
        options = found.parser.parse_args(rest)
        with (
            one_line_errors(),
            self._notebook.session.on_connection(options.connection),
        ):
            found.run(self._notebook, options)


def _show_help() -> None:
    width = max(map(len, COMMANDS))
    write("%sbx SUBCOMMAND, each with --help:\n")
    for name, command in COMMANDS.items():
        write(f"  {name:{width}}  {command.parser.description}\n")
    write("%%sbx runs a cell in a sandbox; %%sbx --help says how\n")
