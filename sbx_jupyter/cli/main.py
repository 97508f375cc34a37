"""``jupyter sbx``: start the engine, set clients up for it, manage sandboxes."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    if arguments[:1] == ["engine"]:
        from sbx_jupyter.service.app import EngineApp

        return EngineApp.launch(arguments[1:])
    from sbx_jupyter.errors import SbxError

    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except SbxError as error:
        print(f"jupyter sbx {options.command}: {error.message}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"jupyter sbx {options.command}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def _parser() -> argparse.ArgumentParser:
    from sbx_jupyter.cli import disk, engine, recover, sandboxes, templates

    parser = argparse.ArgumentParser(prog="jupyter sbx", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("engine", help="run the engine in the foreground", add_help=False)
    engine.add_to(commands)
    sandboxes.add_to(commands)
    templates.add_to(commands)
    disk.add_to(commands)
    recover.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
