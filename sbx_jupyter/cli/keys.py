"""``jupyter sbx keys``: keys for the users of a shared engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.cli.calls import call_platform, running_engine
from sbx_jupyter.cli.parsers import add_command
from sbx_jupyter.errors import NotFoundError

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.cli.parsers import Commands
    from sbx_jupyter.client.api.platform import PlatformClient
    from sbx_jupyter.protocol.owners import MadeOwnerKey, OwnerKey


def add_to(commands: Commands) -> None:
    """Add the commands about keys of owners."""
    text = "manage the keys of users who share this engine"
    parser = commands.add_parser("keys", help=text, description=text)
    actions = parser.add_subparsers(required=True, metavar="action")
    add = add_command(actions, "add", "make a key for a user and print it, this once", add_key)
    add.add_argument("owner", help="the user's name")
    add.add_argument(
        "--sees-all", action="store_true", help="the key may use what other users own too"
    )
    add_command(actions, "list", "list the keys", list_keys)
    remove = add_command(actions, "remove", "revoke a key", remove_key)
    remove.add_argument("key_id", metavar="id", help="as `jupyter sbx keys list` prints it")


def add_key(options: argparse.Namespace) -> int:
    """Print a new key, alone on a line."""

    async def work(platform: PlatformClient) -> MadeOwnerKey:
        return await platform.create_owner_key(options.owner, sees_all=options.sees_all)

    print(call_platform(running_engine(options), work).key)
    return 0


def list_keys(options: argparse.Namespace) -> int:
    """Print id, time and owner of each key."""

    async def work(platform: PlatformClient) -> list[OwnerKey]:
        return await platform.owner_keys()

    for key in call_platform(running_engine(options), work):
        scope = " (sees all)" if key.sees_all else ""
        print(f"{key.key_id}  {key.created_at:%Y-%m-%d %H:%M}  {key.owner}{scope}")
    return 0


def remove_key(options: argparse.Namespace) -> int:
    """Revoke a key; raises ``NotFoundError``."""

    async def work(platform: PlatformClient) -> bool:
        return await platform.remove_owner_key(options.key_id)

    if not call_platform(running_engine(options), work):
        raise NotFoundError(f"there is no key '{options.key_id}'")
    return 0
