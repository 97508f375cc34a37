"""Measures what one cell used: time, processor, memory, and which files it changed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.diff import Change, CodeUsage

if TYPE_CHECKING:
    from sbx_jupyter.client.code.runner import Measure
    from sbx_jupyter.client.sandbox import AsyncSandbox
    from sbx_jupyter.protocol.diff import Diff

POLL_INTERVAL: Final = 0.5
_NOT_THE_CODE: Final = ("/run/", "/tmp/kernel-", "/home/user/.ipython/", "/root/.ipython/")
"""Paths that the interpreter itself writes to while code runs."""

_MANY: Final = 2000
"""Changes since the template beyond which listing them takes too long for a footer."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that one cell used. ``None`` is what the deployment does not tell.

    ``peak_memory`` is the highest of the readings, in bytes of the whole sandbox; a shorter peak
    between two readings is missed.
    """

    seconds: float
    cpu_seconds: float | None = None
    peak_memory: int | None = None
    changes: list[Change] | None = None


class Meter:
    """Takes readings of a sandbox around one cell.

    The engine says with the answer what a cell used; for other deployments it is requested.
    """

    def __init__(
        self, box: AsyncSandbox, *, with_changes: bool, before: Diff | None = None
    ) -> None:
        """``with_changes`` lists the changed files at any price; else only if there are few.

        ``before`` is what the sandbox had changed, where it is known.
        """
        self.after: Diff | None = None
        """Changes of the sandbox since its template, once the cell has ended."""
        self._box = box
        self._with_changes = with_changes
        self._before = before
        self._peak = 0
        self._poll: asyncio.Task[None] | None = None
        self._began = 0.0

    async def start(self) -> Measure:
        """Note how things are before the cell; returns what to ask for with the code."""
        if self._before is None:
            self._before = await self._compare()
        self._began = time.monotonic()
        if self._has_many(self._before) and not self._with_changes:
            self.after, self._before = self._before, None
        self._poll = asyncio.get_running_loop().create_task(self._watch())
        return "usage" if self._before is None else "changes"

    async def stop(self, measured: CodeUsage | None) -> Usage:
        """The use since ``start``; ``measured`` is what came with the answer."""
        seconds = time.monotonic() - self._began
        self.close()
        if measured is None:
            await self._read()
            measured = CodeUsage()
        self._peak = max(self._peak, measured.mem_used)
        after = measured.diff
        if after is None and self._before is not None:
            after = await self._compare()
        self.after = after or self.after
        return Usage(
            seconds,
            cpu_seconds=None if measured.cpu_ns is None else measured.cpu_ns / 1e9,
            peak_memory=self._peak or None,
            changes=None if after is None else changes_between(self._before, after),
        )

    def close(self) -> None:
        """Take no more readings."""
        if self._poll is not None:
            self._poll.cancel()

    def _has_many(self, diff: Diff | None) -> bool:
        return diff is not None and len(diff.changes) > _MANY

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            await self._read()

    async def _read(self) -> None:
        # A footer lacks figures then; the cell itself says what is wrong.
        with contextlib.suppress(SbxError):
            self._peak = max(self._peak, (await self._box.metrics()).mem_used)

    async def _compare(self) -> Diff | None:
        with contextlib.suppress(SbxError):
            return await self._box.diff()
        return None


def changes_between(before: Diff | None, after: Diff) -> list[Change]:
    """The changes from one comparison with the template to the next."""
    earlier = {change.path: change for change in before.changes} if before else {}
    found: list[Change] = []
    for change in after.changes:
        was = earlier.pop(change.path, None)
        if was != change and is_of_the_code(change.path):
            found.append(_since(was, change))
    # Paths no longer listed are as in the template again: added and gone, or restored.
    gone = [
        _undone(change)
        for change in earlier.values()
        if is_of_the_code(change.path) and not _lies_in_deleted(change.path, found)
    ]
    return sorted([*found, *gone], key=lambda change: change.path)


def is_of_the_code(path: str) -> bool:
    """Whether code changed a path, and not the interpreter that runs it."""
    return not (path.startswith(_NOT_THE_CODE) or f"{path}/" in _NOT_THE_CODE or path == "/run")


def _since(was: Change | None, change: Change) -> Change:
    """Say "changed" instead of "added" if the path was there before the cell."""
    if was is not None and was.change != "deleted" and change.change == "added":
        return msgspec.structs.replace(change, change="changed")
    return change


def _undone(change: Change) -> Change:
    kind = "deleted" if change.change == "added" else "changed"
    return Change(path=change.path, change=kind, type=change.type, size=0)


def _lies_in_deleted(path: str, found: list[Change]) -> bool:
    return any(
        change.change == "deleted" and path.startswith(f"{change.path}/") for change in found
    )
