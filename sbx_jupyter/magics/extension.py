"""Registers the magics with IPython: ``%load_ext sbx_jupyter``."""

from __future__ import annotations

from typing import Any

from sbx_jupyter.magics import kernel_restart
from sbx_jupyter.magics.cells.cell import CellMagic
from sbx_jupyter.magics.completion import complete
from sbx_jupyter.magics.kernel_restart import ATTRIBUTE
from sbx_jupyter.magics.line import LineMagic
from sbx_jupyter.magics.parsing import HelpShown
from sbx_jupyter.magics.routing import Routing
from sbx_jupyter.magics.session import Session


class Magics:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.session = Session(shell.user_ns)
        self.routing = Routing()
        self.line = LineMagic(self.session, self.routing, shell)
        self.cell = CellMagic(self.session, shell)

    def run_line(self, line: str) -> Any:
        """``%sbx``."""
        try:
            return self.line.run(line)
        except HelpShown:
            return None

    def run_cell(self, line: str, cell: str) -> Any:
        """``%%sbx``."""
        try:
            return self.cell.run(line, cell)
        except HelpShown:
            return None

    def complete(self, _shell: Any, event: Any) -> list[str]:
        """Completions at the cursor in a line of the magics."""
        return complete(self.session, str(event.line))


def load(shell: Any) -> None:
    """Add the magics to a shell; do nothing if they are there."""
    if hasattr(shell, ATTRIBUTE):
        return
    magics = Magics(shell)
    setattr(shell, ATTRIBUTE, magics)
    shell.register_magic_function(magics.run_line, "line", "sbx")
    shell.register_magic_function(magics.run_cell, "cell", "sbx")
    shell.input_transformers_cleanup.insert(0, magics.routing.transform)
    shell.set_hook("complete_command", magics.complete, re_key=r"%%?sbx\b")


def unload(shell: Any) -> None:
    """Take the magics off a shell; its sandboxes go on."""
    magics = shell.__dict__.pop(ATTRIBUTE, None)
    if magics is None:
        return
    kernel_restart.forget()
    shell.input_transformers_cleanup.remove(magics.routing.transform)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("sbx", None)
