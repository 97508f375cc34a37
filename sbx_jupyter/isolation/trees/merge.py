"""Puts layers together into one, as an overlay would show them; standard library only.

Whiteouts stay in the result, and directories stay opaque, since what they hide may lie in layers
below those that are put together. Each file is read from the one layer that shows it. Needs the
rights of the sandboxes' root.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.trees.copying import Copier, entries, finish
from sbx_jupyter.isolation.trees.descent import FOLDER, Descent, descent_into

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.isolation.zygote.progress import Progress

_OPAQUE: Final = "user.overlay.opaque"
_BLOCK: Final = 512

_Place = tuple[int, os.stat_result]
"""The number of a layer and what it has under the name in question."""


@dataclass(slots=True)
class _Visit:
    """A directory that is being put together."""

    layers: list[int]
    """The layers that show something of it, topmost first."""
    pending: list[tuple[str, list[_Place]]]
    is_opaque: bool


class Merge:
    """One layer of several, topmost first."""

    def __init__(
        self, layers: Sequence[str], target: str, *, progress: Progress | None = None
    ) -> None:
        self._layers = layers
        self._target = target
        self._made = len(layers)
        """The number of the tree that is made, after those of the layers."""
        self._copier = Copier(target, progress)

    def run(self) -> None:
        """Make the layer. Raises ``OSError``, ``Cancelled`` among them."""
        os.mkdir(self._target, 0o700)
        with descent_into([*self._layers, self._target]) as descent:
            self._walk(descent)

    def _walk(self, descent: Descent) -> None:
        everything = list(range(len(self._layers)))
        visits = [_visit(descent, everything, is_opaque=False)]
        while visits:
            visit = visits[-1]
            if visit.pending:
                if below := self._take(descent, *visit.pending.pop()):
                    visits.append(below)
                continue
            self._finish(descent, visit)
            visits.pop()
            if visits:
                descent.leave()

    def _take(self, descent: Descent, name: str, found_at: list[_Place]) -> _Visit | None:
        """Copy an entry; one that is a directory is entered and still to be put together."""
        layer, found = found_at[0]
        if stat.S_ISDIR(found.st_mode):
            return self._enter(descent, name, found_at)
        source, target = descent.descriptor(layer), descent.descriptor(self._made)
        self._copier.copy(source, target, descent, name, found)
        return None

    def _enter(self, descent: Descent, name: str, found_at: list[_Place]) -> _Visit:
        """Go into the directories of one name, down to where something hides what is below."""
        inner: dict[int, int] = {}
        hides = False
        try:
            for layer, found in found_at:
                hides = not stat.S_ISDIR(found.st_mode)
                if hides:
                    break
                inner[layer] = os.open(name, FOLDER, dir_fd=descent.descriptor(layer))
                hides = _is_opaque(inner[layer])
                if hides:
                    break
            layers = list(inner)
            target = descent.descriptor(self._made)
            os.mkdir(name, 0o700, dir_fd=target)
            inner[self._made] = os.open(name, FOLDER, dir_fd=target)
        except BaseException:
            for descriptor in inner.values():
                os.close(descriptor)
            raise
        descent.enter(name, inner)
        return _visit(descent, layers, is_opaque=hides)

    def _finish(self, descent: Descent, visit: _Visit) -> None:
        source, target = descent.descriptor(visit.layers[0]), descent.descriptor(self._made)
        status = os.fstat(source)
        self._copier.count(status.st_blocks * _BLOCK)
        finish(source, target, status)
        if visit.is_opaque:
            os.setxattr(target, _OPAQUE, b"y")
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _visit(descent: Descent, layers: list[int], *, is_opaque: bool) -> _Visit:
    places: dict[str, list[_Place]] = {}
    for layer in layers:
        for name, found in entries(descent.descriptor(layer)).items():
            places.setdefault(name, []).append((layer, found))
    return _Visit(layers, list(places.items()), is_opaque)


def _is_opaque(folder: int) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:
        return False
