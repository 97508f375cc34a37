"""Adds commands to the argument parser of ``jupyter sbx``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    # argparse has no public name for what ``add_subparsers`` returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]


def add_command(
    commands: Commands, name: str, description: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a command that ``run`` carries out, with the option ``--data-dir``."""
    parser = commands.add_parser(name, help=description, description=description)
    parser.add_argument("--data-dir", type=Path, help="the state of the engine")
    parser.set_defaults(run=run)
    return parser
