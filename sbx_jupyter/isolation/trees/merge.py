"""Puts layers together into one, as an overlay would show them; standard library only.

Whiteouts stay in the result, and directories stay opaque, since what they hide may lie in layers
below those that are put together. Each file is read from the one layer that shows it. Whoever runs
this needs the rights of the sandboxes' root.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.trees.copying import FOLDER, Copier, entries, finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.isolation.zygote.progress import Progress

_OPAQUE: Final = "user.overlay.opaque"
_BLOCK: Final = 512

_Place = tuple[int, os.stat_result]
"""An open directory and what it has under the name in question."""


class Merge:
    """One layer of several, topmost first."""

    def __init__(
        self, layers: Sequence[str], target: str, *, progress: Progress | None = None
    ) -> None:
        self._layers = layers
        self._target = target
        self._copier = Copier(target, progress)

    def run(self) -> None:
        """Make the layer. Raises ``OSError``, ``Cancelled`` among them."""
        os.mkdir(self._target, 0o700)
        target = os.open(self._target, FOLDER)
        sources: list[int] = []
        try:
            sources.extend(os.open(layer, FOLDER) for layer in self._layers)
            self._folder(sources, target, "", is_opaque=False)
        finally:
            for descriptor in (*sources, target):
                os.close(descriptor)

    def _folder(self, sources: list[int], target: int, path: str, *, is_opaque: bool) -> None:
        places: dict[str, list[_Place]] = {}
        for source in sources:
            for name, found in entries(source).items():
                places.setdefault(name, []).append((source, found))
        for name, found_at in places.items():
            source, found = found_at[0]
            if stat.S_ISDIR(found.st_mode):
                self._enter(found_at, target, f"{path}/{name}", name)
            else:
                self._copier.copy(source, target, f"{path}/{name}", name, found)
        status = os.fstat(sources[0])
        self._copier.count(status.st_blocks * _BLOCK)
        finish(sources[0], target, status)
        if is_opaque:
            os.setxattr(target, _OPAQUE, b"y")
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _enter(self, found_at: list[_Place], target: int, path: str, name: str) -> None:
        """Merge the directories of one name down to where something hides what is below."""
        inner: list[int] = []
        hides = False
        made = -1
        try:
            for source, found in found_at:
                hides = not stat.S_ISDIR(found.st_mode)
                if hides:
                    break
                inner.append(os.open(name, FOLDER, dir_fd=source))
                hides = _is_opaque(inner[-1])
                if hides:
                    break
            os.mkdir(name, 0o700, dir_fd=target)
            made = os.open(name, FOLDER, dir_fd=target)
            self._folder(inner, made, path, is_opaque=hides)
        finally:
            for descriptor in (*inner, made):
                if descriptor >= 0:
                    os.close(descriptor)


def _is_opaque(folder: int) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:
        return False
