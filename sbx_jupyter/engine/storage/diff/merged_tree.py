"""Layers seen as one tree, the way overlayfs stacks them, without mounting anything.

The layers hold what hostile code wrote, and the topmost may change while it is read: no link is
followed below a layer's root.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPAQUE: Final = "user.overlay.opaque"


@dataclass(frozen=True, slots=True)
class Layer:
    """A directory that is seen at ``prefix`` of the tree (``""``: the whole of it)."""

    root: Path
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What one layer has at a path."""

    status: os.stat_result
    is_whiteout: bool
    is_opaque: bool


def is_whiteout(status: os.stat_result) -> bool:
    """Whether an entry of a layer says that the path is deleted."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def lookup(layers: Sequence[Layer], path: str) -> os.stat_result | None:
    """What the stacked layers (topmost first) show at a relative path; ``None`` if nothing."""
    for layer in layers:
        below = _below(layer.prefix, path)
        if below is None:
            continue
        found, hides_rest = _look(layer.root, below.split("/") if below else [])
        if found is not None:
            return found
        if hides_rest:
            return None
    return None


def children(layers: Sequence[Layer], path: str) -> set[str]:
    """The names that the stacked layers show in a directory."""
    names: set[str] = set()
    for layer in layers:
        below = _below(layer.prefix, path)
        if below is None:
            continue
        with contextlib.suppress(OSError), opened(layer.root, below) as folder:
            names.update(os.listdir(folder))
    return {name for name in names if lookup(layers, f"{path}/{name}" if path else name)}


@contextlib.contextmanager
def opened(root: Path, path: str) -> Iterator[int]:
    """A directory below a layer's root, no link followed; raises ``OSError``."""
    folder = os.open(root, _FOLDER)
    try:
        for part in path.split("/") if path else ():
            deeper = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        yield folder
    finally:
        os.close(folder)


def entries(folder: int) -> Iterator[tuple[str, Found]]:
    """What one layer has in a directory, names in byte order; what vanishes is left out."""
    for name in sorted(os.listdir(folder), key=os.fsencode):
        try:
            yield name, _describe(folder, name)
        except FileNotFoundError:
            continue


def _below(prefix: str, path: str) -> str | None:
    """The part of a path below a prefix; ``None`` when it is elsewhere."""
    if not prefix:
        return path
    if path == prefix:
        return ""
    return path.removeprefix(f"{prefix}/") if path.startswith(f"{prefix}/") else None


def _look(root: Path, parts: list[str]) -> tuple[os.stat_result | None, bool]:
    """What a layer has at a path, and whether it hides what is below it."""
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


def _describe(folder: int, name: str) -> Found:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    is_opaque = False
    if stat.S_ISDIR(status.st_mode):
        with contextlib.suppress(OSError):
            descriptor = os.open(name, _FOLDER, dir_fd=folder)
            try:
                is_opaque = os.getxattr(descriptor, _OPAQUE) == b"y"
            finally:
                os.close(descriptor)
    return Found(status, is_whiteout(status), is_opaque)
