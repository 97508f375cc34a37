"""Stored trees where sandboxes have subordinate ids, which are not the engine's.

An engine of an ordinary user may not open what a sandbox closed to others. A process in the
namespace of the zygote, where these ids are its own, reads it for the engine.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from sbx_jupyter.isolation.stored.trees import Stacks, StoredTrees

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from sbx_jupyter.isolation.tree_operations import TreeOperations
    from sbx_jupyter.protocol.diff import Diff

_log = logging.getLogger(__name__)


class SubordinateTrees(StoredTrees):
    """Compares by ``TreeOperations``, for threads of its event loop."""

    def __init__(self, data_dir: Path, operations: TreeOperations) -> None:
        super().__init__(data_dir)
        self._operations = operations
        self._loop = asyncio.get_running_loop()

    def compare(self, stacks: Stacks, *, on_stock: bool) -> Diff:
        # Here, so that a fence needs no more than Python's own library.
        import msgspec

        from sbx_jupyter.protocol.diff import Diff

        asked = self._operations.compare(self._comparison(stacks, on_stock))
        found = asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        return msgspec.convert(found.body, Diff)

    def sync(self, name: str) -> None:
        # The directory that holds it: a sandbox may have closed the tree itself.
        super().sync(str(PurePosixPath(name).parent))

    def archive(self, stacks: Stacks, *, on_stock: bool) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        asked = self._operations.archive(self._comparison(stacks, on_stock), writer)
        writing = asyncio.run_coroutine_threadsafe(asked, self._loop)

        def close(done: Future[Any]) -> None:
            os.close(writer)
            if not done.cancelled() and (error := done.exception()) is not None:
                _log.warning("an archive of changes ended early: %s", error)

        writing.add_done_callback(close)
        return reader
