"""Lets the engine's user reach the directories that it needs below directories of root alone.

Those below ``/root``, such as the default data directory and perhaps the engine's Python, can only
be passed by root. In a mount namespace of the engine, an empty directory covers each one that bars
the way, and shows what is needed and nothing else.

The engine has that namespace in any case. Sandboxes leave set-uid programs, which belong to root on
the disk, and the engine can open them: nobody to whom it passes such a descriptor gets their
rights, for the kernel takes files of a foreign mount namespace to have none.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from sbx_jupyter.isolation.kernel import syscalls

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MS_SLAVE: Final = 1 << 19


def open_way(needed: Iterable[Path]) -> None:
    """Give this process, of one thread, a view in which others than root reach these directories.

    Raises ``OSError``.
    """
    paths = sorted({path.resolve() for path in needed if path.exists()})
    barred: dict[Path, list[Path]] = {}
    for path in paths:
        bar = _bar_of(path)
        if bar is not None:
            barred.setdefault(bar, []).append(path)
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("", "/", "", syscalls.MS_REC | _MS_SLAVE)
    for bar, below in barred.items():
        _cover(bar, _outermost(below))


def unreadable(folders: Iterable[Path]) -> Path | None:
    """The first of these that others cannot read, although the way to it can be opened."""
    for folder in folders:
        if folder.exists() and not _is_open(folder, stat.S_IROTH | stat.S_IXOTH):
            return folder
    return None


def _is_open(folder: Path, bits: int) -> bool:
    mode = folder.stat().st_mode
    if not stat.S_ISDIR(mode):
        bits &= stat.S_IROTH
    return mode & bits == bits


def _bar_of(path: Path) -> Path | None:
    """The first directory above a path that others cannot pass."""
    for folder in reversed(path.parents):
        if not _is_open(folder, stat.S_IXOTH):
            return folder
    return None


def _outermost(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:  # sorted, so that a parent comes before what is in it
        if not any(path.is_relative_to(outer) for outer in found):
            found.append(path)
    return found


def _cover(bar: Path, shown: list[Path]) -> None:
    trees = [(path, path.is_dir(), syscalls.open_tree(str(path), recursive=True)) for path in shown]
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount("engine", str(bar), "tmpfs", flags, "mode=755,size=1m")
    for path, is_folder, tree in trees:
        if is_folder:
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        else:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.touch()
        syscalls.move_mount(tree, str(path))
        os.close(tree)
