"""Removes stock layers that no sandbox stands on any more.

A stock layer is built for one state of the machine: after an update of it, or of the engine, the
next zygote builds another. Sandboxes that run go on with theirs until they end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
from typing import TYPE_CHECKING, Final

from sbx_jupyter.errors import SbxError
from sbx_jupyter.isolation.zygote.host_mounts import MASKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sbx_jupyter.isolation.tree_operations import TreeOperations
    from sbx_jupyter.isolation.zygote.cage_records import CageRecords

_log = logging.getLogger(__name__)

_REMOVED: Final = ".removed"
_ENTRY: Final = re.compile(
    rf"(?P<layer>[0-9a-f]{{16}})({re.escape(MASKS)})?"
    rf"(?P<rest>(\.[0-9]+)?(\.[0-9a-f]{{8}}{re.escape(_REMOVED)})?)"
)
"""A stock layer, what it hides besides, a draft of either, or what is being removed."""


async def remove_former(
    folder: Path,
    current: Callable[[], Path | None],
    records: CageRecords,
    building: asyncio.Lock,
    trees: TreeOperations,
) -> None:
    """Remove the stock layers in ``folder`` but the current one and those that records name.

    ``building`` is held while a zygote starts, since that may build a layer. A failure is logged:
    the next start tries again.
    """
    try:
        async with building:
            former = await asyncio.to_thread(_set_aside, folder, current(), records)
        for path in former:
            await trees.remove(path)
    except (OSError, SbxError):
        _log.exception("a former stock layer could not be removed")


def _set_aside(folder: Path, current: Path | None, records: CageRecords) -> list[Path]:
    """Rename what is not needed, so that half of it is never taken for a layer."""
    if current is None or not folder.is_dir():
        return []
    needed = _named_by(records)
    found: list[Path] = []
    for name in os.listdir(folder):
        entry = _ENTRY.fullmatch(name)
        if entry is None:
            continue
        is_whole = not entry["rest"]
        if is_whole and (needed is None or entry["layer"] in {*needed, current.name}):
            continue
        if name.endswith(_REMOVED):
            found.append(folder / name)
        else:
            aside = folder / f"{name}.{secrets.token_hex(4)}{_REMOVED}"
            found.append((folder / name).rename(aside))
    return found


def _named_by(records: CageRecords) -> set[str] | None:
    """The layers that sandboxes stand on which may live; None where one does not say so."""
    unreadable: list[str] = []
    states = records.read_all(unreadable.append).values()
    names = {state.get("stock") for state in states}
    if unreadable or None in names:
        return None
    return {str(name) for name in names}
