"""``jupyter sbx``: start the engine, set clients up for it, manage sandboxes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_DESCRIPTION: Final = "Start the engine, set clients up for it, manage sandboxes."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads the rest, as with "| head"; the interpreter would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: list[str]) -> int:
    from sbx_jupyter.errors import SbxError

    command = arguments[0] if arguments else ""
    try:
        if command == "engine":
            return _run_engine(arguments[1:])
        options = command_parser().parse_args(arguments)
        return options.run(options)
    except SbxError as error:
        print(f"jupyter sbx {command}: {error.message}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"jupyter sbx {command}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def _run_engine(arguments: list[str]) -> int:
    from sbx_jupyter.client.connection.bundled import check_platform

    check_platform()
    from sbx_jupyter.service.app import EngineApp

    return EngineApp.launch(arguments)


def command_parser() -> argparse.ArgumentParser:
    from sbx_jupyter.cli import disk, engine, help, keys, recover, sandboxes, templates

    parser = argparse.ArgumentParser(prog="jupyter sbx", description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("engine", help="run the engine in the foreground", add_help=False)
    engine.add_to(commands)
    sandboxes.add_to(commands)
    templates.add_to(commands)
    disk.add_to(commands)
    keys.add_to(commands)
    recover.add_to(commands)
    help.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
