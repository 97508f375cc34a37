"""Defines what a subcommand of ``%sbx`` consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sbx_jupyter.magics.parsing import Parser, add_connection

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from sbx_jupyter.magics.known import Known
    from sbx_jupyter.magics.routing import Routing
    from sbx_jupyter.magics.session import Session


@dataclass(frozen=True, slots=True)
class Notebook:
    """The state that the subcommands work on."""

    session: Session
    routing: Routing
    shell: Any

    def find(self, options: argparse.Namespace) -> Known:
        """The sandbox that the options name, else the one in use."""
        return self.session.find(options.sandbox or getattr(options, "box", None))


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand: its parser, and what it does."""

    parser: Parser
    run: Callable[[Notebook, argparse.Namespace], None]


def command(
    name: str,
    summary: str,
    run: Callable[[Notebook, argparse.Namespace], None],
    add_arguments: Callable[[Parser], None] | None = None,
    *,
    takes_sandbox: bool = True,
    takes_name: bool = False,
) -> Command:
    """Describe a subcommand; ``takes_sandbox`` gives it the option ``--sandbox``.

    ``takes_name`` also takes the sandbox without the option, where no other words can stand.
    """
    parser = Parser(f"%sbx {name}", description=summary)
    if add_arguments is not None:
        add_arguments(parser)
    if takes_name:
        parser.add_argument("box", nargs="?", metavar="NAME", help="the same as --sandbox NAME")
    if takes_sandbox:
        parser.add_argument(
            "-s",
            "--sandbox",
            metavar="NAME",
            help="the sandbox by name, id or variable (default: the one in use)",
        )
    add_connection(parser)
    return Command(parser, run)
