"""All subcommands of ``%sbx`` by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import see
from sbx_jupyter.magics import kernel_restart
from sbx_jupyter.magics.commands.checkpoints import CHECKPOINT_COMMANDS
from sbx_jupyter.magics.commands.command import Command, Notebook, command
from sbx_jupyter.magics.commands.copies import COPY_COMMANDS
from sbx_jupyter.magics.commands.files import FILE_COMMANDS
from sbx_jupyter.magics.commands.sandboxes import SANDBOX_COMMANDS
from sbx_jupyter.magics.commands.views import VIEW_COMMANDS
from sbx_jupyter.magics.errors import MagicError
from sbx_jupyter.magics.screen import write

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.magics.parsing import Parser


def _default_arguments(parser: Parser) -> None:
    parser.add_argument("switch", choices=["on", "off", "show"], nargs="?", default="show")
    parser.add_argument(
        "line",
        nargs="*",
        metavar="NAME LANGUAGE",
        help="where cells run, as after %%%%sbx (default: the sandbox in use)",
    )


def _default(notebook: Notebook, options: argparse.Namespace) -> None:
    from sbx_jupyter.magics.cells.cell_options import parse

    routing = notebook.routing
    if options.switch == "off":
        routing.is_on = False
        kernel_restart.forget()
    elif options.switch == "on":
        line = " ".join(options.line)
        known = notebook.session.find(parse(line).name)
        if not parse(line).name and notebook.session.current is not known:
            raise MagicError(f"choose a sandbox first: %sbx use NAME{see('magics')}")
        routing.turn_on(line)
        is_kept = kernel_restart.keep(notebook.shell, line, known.box.sandbox_id)
        restarted = "also" if is_kept else "but not"
        write(
            f"every cell runs in {known.label} from now on, {restarted} after a restart of the "
            "kernel; %%local in the first line runs a cell here\n"
        )
        return
    state = f"in a sandbox (%%sbx {routing.line})" if routing.is_on else "in this kernel"
    write(f"cells without a prefix run {state}\n")


COMMANDS: Final[dict[str, Command]] = {
    **SANDBOX_COMMANDS,
    **FILE_COMMANDS,
    **VIEW_COMMANDS,
    **COPY_COMMANDS,
    **CHECKPOINT_COMMANDS,
    "default": command(
        "default",
        "Run every cell of this notebook in a sandbox, without a prefix.",
        _default,
        _default_arguments,
        takes_sandbox=False,
    ),
}
