"""Compares two stacks of layers that share their lower part, without reading file contents.

Standard library only, for the zygote.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Final, NamedTuple

from sbx_jupyter.isolation.stored.merged_tree import (
    Layer,
    LayerFolder,
    lookup_in,
)
from sbx_jupyter.isolation.stored.set_up_files import SetUpFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sbx_jupyter.protocol.diff import ChangeKind, EntryKind

MAX_CHANGES: Final = 100_000
_MAX_LOOKED_UP: Final = 5_000_000
"""Names on the paths of entries that are looked at, each of which is looked up again."""

_LONGEST_PATH: Final = 8192
"""Characters. A hostile chain of directories has paths that sum up to the square of its length."""

_MOST_OPEN: Final = 8
"""Directories on the way from the root that are kept open in each layer that has them."""

MOST_PATHS: Final = 16 << 20
"""Bytes of all paths that ``first_changes`` gives, as JSON."""

_Pair = tuple[str, os.stat_result | None, os.stat_result | None]


class Difference(NamedTuple):
    """The fields of ``Change`` in ``protocol/diff.py``."""

    path: str
    change: ChangeKind
    type: EntryKind
    size: int
    changed_us: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two stacks of layers above the same ``common`` layers; all topmost first."""

    ours: tuple[Layer, ...]
    theirs: tuple[Layer, ...]
    common: tuple[Layer, ...]
    sandbox_id: str | None = None
    """The sandbox whose writable layer is the topmost of ``ours``."""

    def first_changes(self) -> tuple[list[Difference], bool]:
        """At most ``MAX_CHANGES``, with paths of ``MOST_PATHS``, and whether there are more."""
        cuts: list[None] = []
        changes: list[Difference] = []
        room = MOST_PATHS
        with contextlib.closing(self.changes(lambda: cuts.append(None))) as found:
            for change in found:
                room -= len(encode_basestring_ascii(change.path))
                if room < 0 or len(changes) == MAX_CHANGES:
                    return changes, True
                changes.append(change)
        return changes, bool(cuts)

    def changes(self, cut: Callable[[], None] = lambda: None) -> Generator[Difference]:
        """Yield what ``ours`` added, changed or deleted against ``theirs``: by path, parents first.

        A deleted directory is one change; its contents are not listed. Files that the engine wrote
        when it started the sandbox do not count. ``cut`` is called when the rest is left out,
        because there is too much of it or it is too deep.
        """
        looked_up = 0
        ours, theirs = (*self.ours, *self.common), (*self.theirs, *self.common)
        set_up = SetUpFiles(self.sandbox_id, ours, theirs) if self.sandbox_id else None
        with contextlib.closing(_Descent(self)) as descent:
            while (found := descent.next()) is not None:
                path, mine, other = found
                looked_up += descent.depth
                if looked_up > _MAX_LOOKED_UP:
                    cut()
                    return
                is_set_up = (
                    set_up is not None and mine is not None and set_up.wrote(path, mine, other)
                )
                if not is_set_up and (change := _change(path, mine, other)):
                    yield change
                if mine is None or not stat.S_ISDIR(mine.st_mode):
                    continue
                if len(path) > _LONGEST_PATH:
                    cut()
                else:
                    descent.enter(path)


class _Descent:
    """Goes through the entries that may differ, parents first."""

    def __init__(self, stacks: Comparison) -> None:
        self._stacks = stacks
        self._levels = [_Level(stacks, "", None)]

    @property
    def depth(self) -> int:
        """Directories from the root to the one of the last entry."""
        return len(self._levels)

    def next(self) -> _Pair | None:
        """The next entry by path, in our stack and in theirs; ``None`` after the last."""
        while self._levels:
            if (found := self._levels[-1].next()) is not None:
                return found
            self._levels.pop().close()
        return None

    def enter(self, path: str) -> None:
        """Go on in a directory, that of the last entry."""
        self._levels.append(_Level(self._stacks, path, self._levels[-1]))
        if len(self._levels) > _MOST_OPEN:
            self._levels[-_MOST_OPEN - 1].close()

    def close(self) -> None:
        """Close all open folders."""
        for level in self._levels:
            level.close()


class _Level:
    """One directory in all layers, with those of its entries that are still to be given."""

    def __init__(self, stacks: Comparison, path: str, parent: _Level | None) -> None:
        self._layers = (*stacks.ours, *stacks.theirs, *stacks.common)
        self._first, self._last = len(stacks.ours), len(stacks.ours) + len(stacks.theirs)
        self._path = path
        self._folders: list[LayerFolder] = []
        if parent is not None:
            name = path.rpartition("/")[2]
            self._folders = [folder.enter(name) for folder in parent._opened()]
        self._names = iter(sorted(self._touched(), key=os.fsencode))

    def next(self) -> _Pair | None:
        """The next entry: its path, and what it is in our stack and in theirs."""
        if (name := next(self._names, None)) is None:
            return None
        folders = self._opened()
        ours, theirs = [*folders[: self._first], *folders[self._last :]], folders[self._first :]
        path = f"{self._path}/{name}" if self._path else name
        return path, lookup_in(ours, name), lookup_in(theirs, name)

    def close(self) -> None:
        """Close the directories; they are opened again when they are needed."""
        for folder in self._folders:
            folder.close()
        self._folders = []

    def _opened(self) -> list[LayerFolder]:
        if not self._folders:
            self._folders = [LayerFolder.find(layer, self._path) for layer in self._layers]
        return self._folders

    def _touched(self) -> set[str]:
        """The names that one of the differing layers contains or hides."""
        folders = self._opened()
        ours, theirs = folders[: self._first], folders[self._first : self._last]
        common = folders[self._last :]
        names: set[str] = set()
        for differing, others in ((ours, theirs), (theirs, ours)):
            # A directory that was deleted and created again hides what was in it.
            is_hidden = any(folder.hides_rest for folder in differing)
            for folder in (*differing, *others, *common) if is_hidden else differing:
                with contextlib.suppress(OSError):
                    names.update(folder.names())
        return names


def _change(
    path: str, mine: os.stat_result | None, other: os.stat_result | None
) -> Difference | None:
    kind: ChangeKind
    if mine is None:
        if other is None:
            return None
        return Difference(_text(path), "deleted", entry_kind(other), size=0)
    if other is None:
        kind = "added"
    elif _differs(mine, other):
        kind = "changed"
    else:
        return None
    size = mine.st_size if stat.S_ISREG(mine.st_mode) else 0
    changed_us = mine.st_ctime_ns // 1000
    return Difference(_text(path), kind, entry_kind(mine), size, changed_us)


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
