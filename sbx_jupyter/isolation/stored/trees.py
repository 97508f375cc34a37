"""Makes, moves, reads and syncs the trees of a data directory; each is known by its name.

A name is relative to the data directory: ``layers/<uuid>``, ``sandboxes/<writable layer>``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from sbx_jupyter.agent.files.removal import remove
from sbx_jupyter.isolation.kernel import subvolumes
from sbx_jupyter.isolation.stored import setting_aside
from sbx_jupyter.isolation.stored.archive import write_archive
from sbx_jupyter.isolation.stored.comparison import Comparison
from sbx_jupyter.isolation.stored.merged_tree import Layer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sbx_jupyter.isolation.stored.volume_content import VolumeContent
    from sbx_jupyter.protocol.diff import Diff

_REMOVAL_TIMEOUT: Final = 600.0
"""Seconds for the content of one removed volume."""

_libc = ctypes.CDLL(None, use_errno=True)


class Stacks(Protocol):
    """Two stacks of layers to compare, by name and topmost first; see ``Comparison``."""

    @property
    def ours(self) -> tuple[str, ...]: ...
    @property
    def theirs(self) -> tuple[str, ...]: ...
    @property
    def common(self) -> tuple[str, ...]: ...


class StoredTrees:
    """The trees below one data directory. All methods may block on the disk."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.stock: tuple[Layer, ...] = ()
        """The lowest layers of every stack with host files; set by ``Fence``."""

    def make_writable(self, name: str, limit: int = 0) -> None:
        """Make a writable layer, with ``upper`` and ``work``, or complete one.

        A new one is held to ``limit``, in bytes, where the file system can. Raises ``OSError``.
        """
        writable = self._path(name)
        writable.parent.mkdir(parents=True, exist_ok=True)
        if not writable.exists():
            subvolumes.make_folder(writable, limit)
        for directory in (writable, writable / "upper", writable / "work"):
            directory.mkdir(exist_ok=True)

    def seal(self, writable: str, layer: str) -> str:
        """Make what was written to a writable layer a layer, by a rename; gives its full name.

        Raises ``OSError``.
        """
        if subvolumes.is_subvolume(self._path(writable)):
            # Nothing can be moved out of a subvolume, which itself can be moved.
            self._path(writable).rename(self._path(layer))
            return f"{layer}/upper"
        (self._path(writable) / "upper").rename(self._path(layer))
        return layer

    def take_snapshot(self, writable: str, layer: str) -> None:
        """Make a layer by a snapshot of the subvolume of a writable layer. Raises ``OSError``."""
        subvolumes.take_snapshot(self._path(writable), self._path(layer))

    def sync(self, name: str) -> None:
        """Sync the file system of a tree to the disk. Raises ``OSError``."""
        sync_filesystem(self._path(name))

    def make_volume(self, volume_id: str, limit: int = 0) -> None:
        """Make an empty volume, open to all users of sandboxes.

        It is held to ``limit``, in bytes, where the file system can. Raises ``OSError``.
        """
        path = self._path(f"volumes/{volume_id}")
        subvolumes.make_folder(path, limit)
        path.chmod(0o777)  # mkdir applies the umask

    def retire_volume(self, volume_id: str) -> None:
        """Move a volume to where ``remove_retired`` finds it. Raises ``OSError``."""
        self._path(f"volumes/{volume_id}").rename(self._path(f"volumes-removed/{volume_id}"))

    def remove_retired(self, volume_id: str, step: Callable[[], None]) -> None:
        """Remove a retired volume; ``step`` may raise to stop.

        Raises ``OSError``, also as ``in_removal_time``.
        """
        path = str(self._path(f"volumes-removed/{volume_id}"))
        remove(path, in_removal_time(step), opens_closed=True)

    def set_aside(self, name: str, kind: str, reason: str, *, group: int = -1) -> str:
        """Move a tree to the quarantine; returns its entry. Raises ``OSError``."""
        into = self._path(setting_aside.FOLDER)
        entry = setting_aside.set_aside(self._path(name), into, kind, reason, group=group)
        return f"{setting_aside.FOLDER}/{entry.name}"

    def volume(self, volume_id: str, *, real_ids: bool) -> VolumeContent:
        """The content of a volume."""
        from sbx_jupyter.isolation.stored.volume_content import VolumeContent

        return VolumeContent(self._path(f"volumes/{volume_id}"), real_ids=real_ids)

    def compare(self, stacks: Stacks, *, on_stock: bool) -> Diff:
        """The first differences of two stacks; ``on_stock``: above the stock layer.

        There are at most 100,000, with paths of 16 MiB together.
        """
        # Not above: the rest of isolation needs nothing but the standard library.
        from sbx_jupyter.protocol.diff import Change, Diff

        found, is_cut = self._comparison(stacks, on_stock).first_changes()
        return Diff(changes=[Change(**each._asdict()) for each in found], truncated=is_cut)

    def archive(self, stacks: Stacks, *, on_stock: bool) -> int:
        """Write the changed files as a tar to a pipe; returns its reading end.

        The caller closes it; closing it early ends the work.
        """
        comparison = self._comparison(stacks, on_stock)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        # Its own thread: it writes as slowly as the client reads, which would block a pool.
        threading.Thread(
            target=write_changes, args=(comparison, writer), name="sbx-diff-archive", daemon=True
        ).start()
        return reader

    def _comparison(self, stacks: Stacks, on_stock: bool) -> Comparison:
        ours, theirs, common = (
            tuple(Layer(self._path(name)) for name in names)
            for names in (stacks.ours, stacks.theirs, stacks.common)
        )
        common = (*common, *(self.stock if on_stock else ()))
        return Comparison(ours, theirs, common, _sandbox_of(stacks.ours))

    def _path(self, name: str) -> Path:
        return self._data_dir / name


def in_removal_time(step: Callable[[], None]) -> Callable[[], None]:
    """``step``, which raises ``TimeoutError`` when a removal takes too long.

    A sandbox that has the volume mounted may make more than is removed.
    """
    end = time.monotonic() + _REMOVAL_TIMEOUT

    def go_on() -> None:
        step()
        if time.monotonic() > end:
            raise TimeoutError(f"it took longer than {_REMOVAL_TIMEOUT:g} s")

    return go_on


def _sandbox_of(names: tuple[str, ...]) -> str | None:
    """The sandbox whose writable layer is the topmost of a stack."""
    folder, _, rest = (names[0] if names else "").partition("/")
    return rest.partition("/")[0].partition(".")[0] if folder == "sandboxes" else None


def sync_filesystem(directory: Path) -> None:
    """Sync the file system of a directory to the disk; blocking. Raises ``OSError``."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


def write_changes(comparison: Comparison, writer: int) -> None:
    """Write what changed as a tar to a pipe, and close that; blocks as long as it is read."""
    # The reader left, or the sandbox ended and with it its layers. Closing flushes what is left.
    with (
        contextlib.suppress(BrokenPipeError, FileNotFoundError),
        os.fdopen(writer, "wb") as target,
    ):
        write_archive(target, (*comparison.ours, *comparison.common), comparison.changes())
