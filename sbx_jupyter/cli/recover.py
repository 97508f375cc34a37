"""``jupyter sbx recover``: rebuild a damaged store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.cli.parsers import add_command
from sbx_jupyter.errors import NotFoundError
from sbx_jupyter.protocol.locations import default_data_dir

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.cli.parsers import Commands


def add_to(commands: Commands) -> None:
    """Add the command."""
    text = "rebuild the engine's database after damage, from what the directories tell"
    add_command(commands, "recover", text, rebuild_store)


def rebuild_store(options: argparse.Namespace) -> int:
    """Rebuild the store and print what was done; the engine must not run.

    Raises ``NotFoundError`` where there is no data directory.
    """
    from sbx_jupyter.engine.recover import recover

    data_dir = (options.data_dir or default_data_dir()).expanduser().absolute()
    if not data_dir.is_dir():
        raise NotFoundError(f"there is no data directory {data_dir}")
    for line in recover(data_dir).lines:
        print(line)
    return 0
