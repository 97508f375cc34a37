"""Compares two stacks of layers that share their lower part, without reading file contents."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.stored.merged_tree import (
    Layer,
    children,
    entries,
    lookup,
    open_directory,
)
from sbx_jupyter.isolation.stored.set_up_files import SetUpFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sbx_jupyter.protocol.diff import Change, ChangeKind, EntryKind

MAX_CHANGES: Final = 100_000
_MAX_LOOKED_UP: Final = 5_000_000
"""Names on the paths of entries that are looked at, each of which is looked up again."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two stacks of layers above the same ``common`` layers; all topmost first."""

    ours: tuple[Layer, ...]
    theirs: tuple[Layer, ...]
    common: tuple[Layer, ...]
    sandbox_id: str | None = None
    """The sandbox whose writable layer is the topmost of ``ours``."""

    def changes(self, cut: Callable[[], None] = lambda: None) -> Iterator[Change]:
        """What ``ours`` added, changed or deleted against ``theirs``: by path, parents first.

        A deleted directory is one change; its contents are not listed. What the engine wrote when
        it started the sandbox is none. ``cut`` is called when the rest is left out, because there
        is too much of it or it is too deep.
        """
        looked_up = 0
        ours, theirs = (*self.ours, *self.common), (*self.theirs, *self.common)
        set_up = SetUpFiles(self.sandbox_id, ours, theirs) if self.sandbox_id else None
        pending = [self._names("")]
        while pending:
            if (path := next(pending[-1], None)) is None:
                pending.pop()
                continue
            looked_up += len(pending)
            if looked_up > _MAX_LOOKED_UP:
                cut()
                return
            mine, other = lookup(ours, path), lookup(theirs, path)
            is_set_up = set_up is not None and mine is not None and set_up.wrote(path, mine, other)
            if not is_set_up and (change := _change(path, mine, other)):
                yield change
            if mine is not None and stat.S_ISDIR(mine.st_mode):
                pending.append(self._names(path))

    def _names(self, folder: str) -> Iterator[str]:
        """The paths of the entries of a directory that may differ."""
        names = sorted(self._touched(folder), key=os.fsencode)
        return iter([f"{folder}/{name}" if folder else name for name in names])

    def _touched(self, folder: str) -> set[str]:
        """The names in a directory that one of the differing layers contains or hides."""
        names: set[str] = set()
        for layers, others in ((self.ours, self.theirs), (self.theirs, self.ours)):
            for layer in layers:
                try:
                    with open_directory(layer.root, folder) as descriptor:
                        names.update(name for name, _ in entries(descriptor))
                except OSError:
                    continue
            if self._replaced(layers, folder):
                names |= children((*others, *self.common), folder)
        return names

    def _replaced(self, layers: Sequence[Layer], folder: str) -> bool:
        """Whether a directory was deleted and created again, which hides its earlier contents."""
        if not folder:
            return False
        parent, _, name = folder.rpartition("/")
        for layer in layers:
            try:
                with open_directory(layer.root, parent) as descriptor:
                    if any(item == name and found.is_opaque for item, found in entries(descriptor)):
                        return True
            except OSError:
                continue
        return False


def _change(path: str, mine: os.stat_result | None, other: os.stat_result | None) -> Change | None:
    # Not above: the rest of isolation needs nothing but the standard library.
    from sbx_jupyter.protocol.diff import Change

    kind: ChangeKind
    if mine is None:
        if other is None:
            return None
        return Change(path=_text(path), change="deleted", type=entry_kind(other), size=0)
    if other is None:
        kind = "added"
    elif _differs(mine, other):
        kind = "changed"
    else:
        return None
    size = mine.st_size if stat.S_ISREG(mine.st_mode) else 0
    changed_us = mine.st_ctime_ns // 1000
    return Change(
        path=_text(path), change=kind, type=entry_kind(mine), size=size, changed_us=changed_us
    )


def _differs(mine: os.stat_result, other: os.stat_result) -> bool:
    if mine.st_mode != other.st_mode:
        return True
    if stat.S_ISDIR(mine.st_mode):
        return False
    return (mine.st_size, mine.st_mtime_ns) != (other.st_size, other.st_mtime_ns)


def entry_kind(status: os.stat_result) -> EntryKind:
    """The kind of the entry that a status describes."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(status.st_mode) else "other"


def _text(path: str) -> str:
    return "/" + os.fsencode(path).decode("utf-8", "replace")
