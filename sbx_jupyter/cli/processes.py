"""``jupyter sbx doctor --processes``: what each process of the running engine may do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sbx_jupyter.cli.calls import running_engine

if TYPE_CHECKING:
    import argparse

    from sbx_jupyter.isolation.privileges import Privileges


def show_processes(options: argparse.Namespace) -> int:
    """Print the processes of the engine, or the same as JSON; raises ``UnavailableError``."""
    from sbx_jupyter.isolation.privileges import privileges_below

    found = privileges_below(running_engine(options).pid)
    if options.json:
        print(json.dumps([process.to_json() for process in found], indent=2))
        return 0
    for process in found:
        print(_described(process))
    return 0


def _described(process: Privileges) -> str:
    return (
        f"{process.role} (process {process.pid}, child of {process.parent})\n"
        f"  user {process.user_ids[1]}, group {process.group_ids[1]}\n"
        f"  capabilities: {_in_words(process.capabilities)}\n"
        f"  no new privileges: {'yes' if process.no_new_privileges else 'no'}; "
        f"system call filters: {process.filters}\n"
        f"  own namespaces: {' '.join(process.namespaces) or 'none'}"
    )


def _in_words(capabilities: tuple[str, ...]) -> str:
    from sbx_jupyter.isolation.privileges import CAPABILITIES

    lacking = [name for name in CAPABILITIES if name not in capabilities]
    if not lacking:
        return "all"
    if len(lacking) < len(CAPABILITIES) // 4:
        return f"all but {' '.join(lacking)}"
    return " ".join(capabilities) or "none"
