"""Reads layers as one tree, as overlayfs would show them, without mounting anything.

Hostile code wrote the layers, and the topmost may change while it is read, so no link is followed
below the root of a layer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPAQUE: Final = "user.overlay.opaque"


@dataclass(frozen=True, slots=True)
class Layer:
    """A directory that appears at ``prefix`` of the tree (``""``: at its root)."""

    root: Path
    prefix: str = ""


def is_whiteout(status: os.stat_result) -> bool:
    """Whether an entry of a layer marks the path as deleted."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def read_file(layers: Sequence[Layer], path: str, limit: int) -> bytes | None:
    """The content of a file of the stacked layers; ``None`` if it has more than ``limit`` bytes.

    ``None`` too for what is not a file.
    """
    for layer in layers:
        below = _below(layer.prefix, path)
        if below is None:
            continue
        folder, _, name = below.rpartition("/")
        try:
            with open_directory(layer.root, folder) as parent:
                descriptor = os.open(name, _FILE, dir_fd=parent)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = file.read(limit + 1)
        return content if len(content) <= limit else None
    return None


@contextlib.contextmanager
def open_directory(root: Path, path: str) -> Generator[int]:
    """Open a directory below a layer's root, following no link; raises ``OSError``."""
    folder = os.open(root, _FOLDER)
    try:
        for part in path.split("/") if path else ():
            deeper = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        yield folder
    finally:
        os.close(folder)


def lookup_in(folders: Sequence[LayerFolder], name: str) -> os.stat_result | None:
    """The entry with a name in a directory of the stacked layers (topmost first)."""
    for folder in folders:
        found, hides_rest = folder.lookup(name)
        if found is not None:
            return found
        if hides_rest:
            return None
    return None


class LayerFolder:
    """One layer's entries in a directory of the tree; must be closed."""

    def __init__(self, layer: Layer, path: str, descriptor: int | None, hides_rest: bool) -> None:
        self._layer = layer
        self._path = path
        self._descriptor = descriptor
        self._is_prefix = descriptor is None and layer.prefix.rpartition("/")[0] == path
        self.hides_rest = hides_rest
        """Whether nothing shows here that lower layers have."""

    @classmethod
    def find(cls, layer: Layer, path: str) -> LayerFolder:
        """The directory at ``path``; raises ``OSError`` when the layer itself is not there."""
        below = _below(layer.prefix, path)
        if below is None:
            return cls(layer, path, None, hides_rest=False)
        return cls(layer, path, *_descend(layer.root, below.split("/") if below else []))

    def enter(self, name: str) -> LayerFolder:
        """The directory in this one with a name."""
        path = f"{self._path}/{name}" if self._path else name
        if self._descriptor is not None:
            descriptor, hides = _enter(self._descriptor, name)
            return LayerFolder(self._layer, path, descriptor, self.hides_rest or hides)
        if path == self._layer.prefix:
            return LayerFolder.find(self._layer, path)
        return LayerFolder(self._layer, path, None, self.hides_rest)

    def names(self) -> list[str]:
        """The names that the layer itself has here, of whiteouts too. Raises ``OSError``."""
        return [] if self._descriptor is None else os.listdir(self._descriptor)

    def lookup(self, name: str) -> tuple[os.stat_result | None, bool]:
        """The entry with a name, and whether the layer hides those of lower layers."""
        if self._is_prefix and name == self._layer.prefix.rpartition("/")[2]:
            return os.stat(self._layer.root, follow_symlinks=False), False
        if self._descriptor is None:
            return None, self.hides_rest
        try:
            found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return None, self.hides_rest
        return (None, True) if is_whiteout(found) else (found, self.hides_rest)

    def close(self) -> None:
        """Close the directory."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _below(prefix: str, path: str) -> str | None:
    """The part of a path below a prefix; ``None`` when it is not below."""
    if not prefix:
        return path
    if path == prefix:
        return ""
    return path.removeprefix(f"{prefix}/") if path.startswith(f"{prefix}/") else None


def _descend(root: Path, parts: Sequence[str]) -> tuple[int | None, bool]:
    """A directory of a layer, and whether the layer hides what lower layers have there.

    ``None`` where the layer has no such directory.
    """
    folder = os.open(root, _FOLDER)
    hides = False
    for name in parts:
        try:
            deeper, hides_there = _enter(folder, name)
        finally:
            os.close(folder)
        hides = hides or hides_there
        if deeper is None:
            return None, hides
        folder = deeper
    return folder, hides


def _enter(folder: int, name: str) -> tuple[int | None, bool]:
    """The directory with a name, and whether what lower layers have in it is hidden."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        # A whiteout, a link or a file in place of the directory.
        return None, error.errno in (errno.ENOTDIR, errno.ELOOP)
    try:
        return descriptor, os.getxattr(descriptor, _OPAQUE) == b"y"
    except OSError:
        return descriptor, False
