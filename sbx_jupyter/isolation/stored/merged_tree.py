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
    from collections.abc import Generator, Iterator, Sequence
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


def entries(folder: int) -> Iterator[tuple[str, LayerEntry]]:
    """The entries that one layer has in a directory, by name; those gone meanwhile are left out."""
    for name in sorted(os.listdir(folder), key=os.fsencode):
        try:
            yield name, _describe(folder, name)
        except FileNotFoundError:
            continue


def _below(prefix: str, path: str) -> str | None:
    """The part of a path below a prefix; ``None`` when it is not below."""
    if not prefix:
        return path
    if path == prefix:
        return ""
    return path.removeprefix(f"{prefix}/") if path.startswith(f"{prefix}/") else None


def _lookup_in_layer(root: Path, parts: list[str]) -> tuple[os.stat_result | None, bool]:
    """The entry of a layer at a path, and whether the layer hides those of lower layers."""
    folder = os.open(root, _FOLDER)
    hides = False
    try:
        if not parts:
            return os.fstat(folder), False
        for index, name in enumerate(parts):
            try:
                found = _describe(folder, name)
            except OSError:
                return None, hides
            if found.is_whiteout:
                return None, True
            if index == len(parts) - 1:
                return found.status, hides
            if not stat.S_ISDIR(found.status.st_mode):
                return None, True
            hides = hides or found.is_opaque
            deeper = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        return None, hides
    except OSError:
        return None, hides
    finally:
        os.close(folder)


def _describe(folder: int, name: str) -> LayerEntry:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    is_opaque = False
    if stat.S_ISDIR(status.st_mode):
        with contextlib.suppress(OSError):
            descriptor = os.open(name, _FOLDER, dir_fd=folder)
            try:
                is_opaque = os.getxattr(descriptor, _OPAQUE) == b"y"
            finally:
                os.close(descriptor)
    return LayerEntry(status, is_whiteout(status), is_opaque)
