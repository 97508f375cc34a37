"""Compares two stacks of layers that share their lower part, without reading file contents."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.stored.merged_tree import (
    Layer,
    children,
    is_made_anew,
    lookup_in,
    open_directory,
    open_folder,
)
from sbx_jupyter.isolation.stored.set_up_files import SetUpFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sbx_jupyter.protocol.diff import Change, ChangeKind, EntryKind

MAX_CHANGES: Final = 100_000
_MAX_LOOKED_UP: Final = 5_000_000
"""Names on the paths of entries that are looked at, each of which is looked up again."""

_AT_ONCE: Final = 256
"""Entries of a directory that are looked up while it is open."""

_Pair = tuple[str, os.stat_result | None, os.stat_result | None]


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
        pending = [self._looked_up("")]
        while pending:
            if (found := next(pending[-1], None)) is None:
                pending.pop()
                continue
            path, mine, other = found
            looked_up += len(pending)
            if looked_up > _MAX_LOOKED_UP:
                cut()
                return
            is_set_up = set_up is not None and mine is not None and set_up.wrote(path, mine, other)
            if not is_set_up and (change := _change(path, mine, other)):
                yield change
            if mine is not None and stat.S_ISDIR(mine.st_mode):
                pending.append(self._looked_up(path))

    def _looked_up(self, folder: str) -> Iterator[_Pair]:
        """The entries of a directory that may differ, by path: in our stack, and in theirs."""
        names = sorted(self._touched(folder), key=os.fsencode)
        for start in range(0, len(names), _AT_ONCE):
            yield from self._look_up(folder, names[start : start + _AT_ONCE])

    def _look_up(self, folder: str, names: Sequence[str]) -> list[_Pair]:
        with open_folder((*self.ours, *self.theirs, *self.common), folder) as opened:
            first, last = len(self.ours), len(self.ours) + len(self.theirs)
            ours, theirs = [*opened[:first], *opened[last:]], opened[first:]
            return [
                (
                    f"{folder}/{name}" if folder else name,
                    lookup_in(ours, name),
                    lookup_in(theirs, name),
                )
                for name in names
            ]

    def _touched(self, folder: str) -> set[str]:
        """The names in a directory that one of the differing layers contains or hides."""
        names: set[str] = set()
        for layers, others in ((self.ours, self.theirs), (self.theirs, self.ours)):
            for layer in layers:
                try:
                    with open_directory(layer.root, folder) as descriptor:
                        names.update(os.listdir(descriptor))
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
                    if is_made_anew(descriptor, name):
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
