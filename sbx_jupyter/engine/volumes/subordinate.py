"""The directories of volumes where sandboxes have subordinate ids, which are not the engine's.

What a sandbox wrote to a volume belongs to those ids, and an engine of an ordinary user may neither
give them files nor open what they closed. A process in the namespace of the zygote, where these ids
are its own, does it for the engine.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.isolation.privileged.remote_trees import RemoteVolume
from sbx_jupyter.isolation.stored.trees import in_removal_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sbx_jupyter.isolation.privileged.messages import OfVolume
    from sbx_jupyter.isolation.stored.trees import StoredTrees
    from sbx_jupyter.isolation.tree_operations import TreeOperations

_STEP: Final = 0.2
"""Seconds after which a removal looks whether it is to stop."""


class SubordinateVolumes:
    """Makes, opens and removes the directories; all methods block, for threads."""

    def __init__(self, data_dir: Path, stored: StoredTrees, operations: TreeOperations) -> None:
        """The event loop of the caller is that of ``operations``."""
        self._data_dir = data_dir
        self._stored = stored
        self._operations = operations
        self._loop = asyncio.get_running_loop()

    def make_volume(self, volume_id: str, limit: int = 0) -> None:
        self._stored.make_volume(volume_id, limit)

    def retire_volume(self, volume_id: str) -> None:
        try:
            self._stored.retire_volume(volume_id)
        except PermissionError:  # a sandbox gave the directory itself to another user
            source, target = (
                self._data_dir / folder / volume_id for folder in ("volumes", "volumes-removed")
            )
            moving = self._operations.move(source, target)
            asyncio.run_coroutine_threadsafe(moving, self._loop).result()

    def remove_retired(self, volume_id: str, step: Callable[[], None]) -> None:
        retired = self._data_dir / "volumes-removed" / volume_id
        removing = asyncio.run_coroutine_threadsafe(self._operations.remove(retired), self._loop)
        go_on = in_removal_time(step)
        try:
            while not wait((removing,), timeout=_STEP).done:
                go_on()
        except BaseException:
            removing.cancel()
            raise
        removing.result()

    def volume(self, volume_id: str, *, real_ids: bool) -> RemoteVolume:
        return RemoteVolume(self._ask, volume_id)

    def _ask(self, message: OfVolume, timeout: float = 60) -> tuple[dict[str, Any], list[int]]:
        call: dict[str, Any] = msgspec.to_builtins(message)
        root = self._data_dir / "volumes" / message.volume_id
        asked = self._operations.use_volume(root, call, timeout)
        reply = asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        return reply.body, reply.fds
