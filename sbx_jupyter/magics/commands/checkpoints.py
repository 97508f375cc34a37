"""The subcommand for checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbx_jupyter.display.reports import table
from sbx_jupyter.magics.commands.command import Command, Notebook, command
from sbx_jupyter.magics.errors import MagicError
from sbx_jupyter.magics.screen import show_html, write

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.magics.parsing import Parser


def _arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=["on", "off", "list", "go"])
    parser.add_argument("cell", nargs="?", type=int, help="the number of a cell, for go")


def _run(notebook: Notebook, options: argparse.Namespace) -> None:
    checkpoints = notebook.session.checkpoints
    match options.action:
        case "on":
            checkpoints.is_on = True
            write("the files are captured after each cell from now on\n")
        case "off":
            checkpoints.is_on = False
            write("no more checkpoints are made; those there are stay\n")
        case "list":
            rows = [(f"In [{cell}]", *kept) for cell, kept in sorted(checkpoints.kept.items())]
            plain = "\n".join(" ".join(row) for row in rows) or "no checkpoints"
            show_html(table(["cell", "sandbox", "snapshot"], rows) if rows else plain, plain)
        case _:
            _go(notebook, options.cell)


def _go(notebook: Notebook, cell: int | None) -> None:
    kept = notebook.session.checkpoints.kept
    known = ", ".join(map(str, sorted(kept))) or "none"
    if cell is None:
        raise MagicError(f"name the cell to go back to: %sbx checkpoint go CELL; there is {known}")
    if cell not in kept:
        raise MagicError(f"there is no checkpoint of cell {cell}; there is {known}")
    label, snapshot = kept[cell]
    name = f"{label.partition('@')[0]}@{cell}"
    is_free = name not in notebook.session.names()
    restored = notebook.session.create(name if is_free else "", template=snapshot)
    restored.last_snapshot = snapshot
    write(
        f"{restored.label} has the files after cell {cell} and is in use from now on. Its "
        f"variables are not restored: run cells 1 to {cell} to have them again. {label} goes on\n"
    )


CHECKPOINT_COMMANDS: Final[dict[str, Command]] = {
    "checkpoint": command(
        "checkpoint",
        "Capture the files after each cell, and go back to them.",
        _run,
        _arguments,
        takes_sandbox=False,
    )
}
