"""Reads layers as one tree, as overlayfs would show them, without mounting anything.

Hostile code wrote the layers, and the topmost may change while it is read, so no link is followed
below the root of a layer.
"""

from __future__ import annotations

import contextlib
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


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """The entry that one layer has at a path."""

    status: os.stat_result
    is_whiteout: bool
    is_opaque: bool


def is_whiteout(status: os.stat_result) -> bool:
    """Whether an entry of a layer marks the path as deleted."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def lookup(layers: Sequence[Layer], path: str) -> os.stat_result | None:
    """The entry at a relative path of the stacked layers (topmost first), if there is one."""
    for layer in layers:
        below = _below(layer.prefix, path)
        if below is None:
            continue
        found, hides_rest = _lookup_in_layer(layer.root, below.split("/") if below else [])
        if found is not None:
            return found
        if hides_rest:
            return None
    return None


def children(layers: Sequence[Layer], path: str) -> set[str]:
    """The names in a directory of the stacked layers."""
    names: set[str] = set()
    for layer in layers:
        below = _below(layer.prefix, path)
        if below is None:
            continue
        with contextlib.suppress(OSError), open_directory(layer.root, below) as folder:
            names.update(os.listdir(folder))
    return {name for name in names if lookup(layers, f"{path}/{name}" if path else name)}


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


def is_made_anew(folder: int, name: str) -> bool:
    """Whether a directory of a layer hides what lower layers have in it; raises ``OSError``."""
    return _describe(folder, name).is_opaque


@contextlib.contextmanager
def open_folder(layers: Sequence[Layer], path: str) -> Generator[list[LayerFolder]]:
    """One directory in each of some layers, to look up many of its entries."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(LayerFolder(each, path))) for each in layers]


def lookup_in(folders: Sequence[LayerFolder], name: str) -> os.stat_result | None:
    """As ``lookup``: the entry with a name in an open directory of the stacked layers."""
    for folder in folders:
        found, hides_rest = folder.lookup(name)
        if found is not None:
            return found
        if hides_rest:
            return None
    return None


class LayerFolder:
    """What one layer has in a directory of the tree; close it."""

    def __init__(self, layer: Layer, path: str) -> None:
        self._layer = layer
        self._is_prefix = False
        self._descriptor: int | None = None
        self._hides_rest = False
        below = _below(layer.prefix, path)
        if below is not None:
            parts = below.split("/") if below else []
            self._descriptor, self._hides_rest = _descend(layer.root, parts)
        else:
            self._is_prefix = layer.prefix.rpartition("/")[0] == path

    def lookup(self, name: str) -> tuple[os.stat_result | None, bool]:
        """The entry with a name, and whether the layer hides those of lower layers."""
        if self._is_prefix and name == self._layer.prefix.rpartition("/")[2]:
            return os.stat(self._layer.root, follow_symlinks=False), False
        if self._descriptor is None:
            return None, self._hides_rest
        try:
            found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return None, self._hides_rest
        return (None, True) if is_whiteout(found) else (found, self._hides_rest)

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


def _lookup_in_layer(root: Path, parts: list[str]) -> tuple[os.stat_result | None, bool]:
    """The entry of a layer at a path, and whether the layer hides those of lower layers."""
    folder, hides = _descend(root, parts[:-1])
    if folder is None:
        return None, hides
    try:
        if not parts:
            return os.fstat(folder), False
        found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None, hides
    finally:
        os.close(folder)
    return (None, True) if is_whiteout(found) else (found, hides)


def _descend(root: Path, parts: Sequence[str]) -> tuple[int | None, bool]:
    """A directory of a layer, and whether the layer hides what lower layers have there.

    ``None`` where the layer has no such directory.
    """
    folder = os.open(root, _FOLDER)
    hides = False
    for name in parts:
        try:
            found = _describe(folder, name)
            if not _is_folder(found.status):  # a whiteout, or a file in place of the directory
                return None, True
            hides = hides or found.is_opaque
            deeper = os.open(name, _FOLDER, dir_fd=folder)
        except OSError:
            return None, hides
        finally:
            os.close(folder)
        folder = deeper
    return folder, hides


def _is_folder(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode)


def _describe(folder: int, name: str) -> LayerEntry:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    is_opaque = False
    if _is_folder(status):
        with contextlib.suppress(OSError):
            descriptor = os.open(name, _FOLDER, dir_fd=folder)
            try:
                is_opaque = os.getxattr(descriptor, _OPAQUE) == b"y"
            finally:
                os.close(descriptor)
    return LayerEntry(status, is_whiteout(status), is_opaque)
