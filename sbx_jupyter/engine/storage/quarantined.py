"""Measures and removes what is in quarantine, by the fence where only it may."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sbx_jupyter.agent.files.removal import remove as remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from sbx_jupyter.engine.state.quarantine import Entry
    from sbx_jupyter.isolation.privileged.remote_trees import RemoteTreeOperations
    from sbx_jupyter.isolation.tree_operations import TreeOperations

_BLOCK: Final = 512


async def sizes(
    entries: Sequence[Entry], trees: TreeOperations | RemoteTreeOperations
) -> list[int]:
    """The bytes of each entry on the disk; 0 for one that is gone. Raises ``SbxError``."""
    by_fence = [entry.folder for entry in entries if not entry.is_apart]
    found = dict(zip(by_fence, await trees.measure_all(by_fence), strict=True)) if by_fence else {}
    apart = [entry.folder for entry in entries if entry.is_apart]
    own = dict(zip(apart, await asyncio.to_thread(_measure, apart), strict=True))
    return [
        own[entry.folder] if entry.is_apart else (found[entry.folder] or (0, 0))[0]
        for entry in entries
    ]


def _measure(folders: Iterable[Path]) -> list[int]:
    return [
        sum(path.lstat().st_blocks * _BLOCK for path in (folder, *folder.rglob("*")))
        for folder in folders
    ]


async def remove(entry: Entry, trees: TreeOperations | RemoteTreeOperations) -> None:
    """Remove an entry. Raises ``SbxError`` and ``OSError``."""
    if entry.is_apart:
        await asyncio.to_thread(remove_tree, str(entry.folder))
    else:
        await trees.remove(entry.folder)
