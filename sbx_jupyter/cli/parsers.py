"""Adds commands to the argument parser of ``jupyter sbx``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    # argparse has no public name for the result type of ``add_subparsers``.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]


def add_command(
    commands: Commands, name: str, description: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a command that calls ``run``, with the option ``--data-dir``."""
    parser = commands.add_parser(name, help=description, description=description)
    parser.add_argument("--data-dir", type=Path, help="the engine's data directory")
    parser.set_defaults(run=run)
    return parser
