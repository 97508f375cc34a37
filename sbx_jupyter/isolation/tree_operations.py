"""Works on directory trees below the data directory, in processes that the zygote forks."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Final

from sbx_jupyter.errors import AbortedError, IsolationError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from sbx_jupyter.isolation.channel import Reply
    from sbx_jupyter.isolation.stored.comparison import Comparison
    from sbx_jupyter.isolation.trees.copied_directories import CopiedDirectories
    from sbx_jupyter.isolation.zygote.client import ZygoteProcess
    from sbx_jupyter.isolation.zygote.progress import Progress

_COPY_TIMEOUT: Final = 3600.0
_ATTEMPTS: Final = 8
"""An operation is given up when it was killed this often."""

_ATTEMPTS_TO_MEASURE: Final = 2
"""Fewer for a measurement: its caller waits, and a failed one leaves nothing to clean up."""

_REPEATABLE: Final = frozenset({"change_entry", "list_entries", "open_read", "stat_entry"})
"""Calls on a volume that do the same when they are done twice."""

_GRACE: Final = 5
"""Seconds after which a helper that nobody waits for any more is killed."""


def relative_to(data_dir: Path, path: Path) -> str:
    """``path`` as the zygote takes it; raises ``IsolationError`` outside of the data directory."""
    try:
        return str(path.resolve().relative_to(data_dir))
    except ValueError:
        raise IsolationError(f"{path} is not in the data directory") from None


def descriptors_of(copied: CopiedDirectories | None, progress: Progress | None) -> list[int]:
    """The descriptors of a copy in the order in which its process takes them."""
    return [each.descriptor for each in (copied, progress) if each is not None]


def _as_text(comparison: Comparison) -> dict[str, Any]:
    stacks = {"ours": comparison.ours, "theirs": comparison.theirs, "common": comparison.common}
    return {
        name: [(str(layer.root), layer.prefix) for layer in layers]
        for name, layers in stacks.items()
    } | {"sandbox_id": comparison.sandbox_id}


class TreeOperations:
    """Removes, measures, copies, unpacks and merges trees, whatever ids own the files."""

    def __init__(self, data_dir: Path, zygote: Callable[[], Awaitable[ZygoteProcess]]) -> None:
        """``zygote`` gives a live zygote, and starts one where there is none."""
        self._data_dir = data_dir
        self._zygote = zygote

    async def remove(self, directory: Path) -> None:
        """Delete a writable directory, whatever ids own what is in it. Raises ``SbxError``."""
        await self._call("remove", path=self._path(directory), timeout=600)

    async def measure(self, writable: Path) -> tuple[int, int]:
        """Bytes and inodes of a writable layer, whatever ids own them. Raises ``SbxError``."""
        (found,) = await self.measure_all([writable / "upper"])
        if found is None:
            raise UnavailableError(f"{writable} could not be measured")  # it is being removed
        return found

    async def measure_all(self, trees: Sequence[Path]) -> list[tuple[int, int] | None]:
        """Bytes on the disk and inodes of each directory, ``None`` for one that is not there.

        A file with several names counts once in a directory. Raises ``SbxError``.
        """
        paths = [self._path(tree) for tree in trees]
        reply = await self._call("measure", attempts=_ATTEMPTS_TO_MEASURE, paths=paths, timeout=600)
        return [None if found is None else (found[0], found[1]) for found in reply.body["sizes"]]

    async def copy(
        self,
        source: Path,
        target: Path,
        *,
        since_ns: int = 0,
        still: bool = True,
        copied: CopiedDirectories | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Copy a writable layer, sharing blocks where the file system can.

        Whatever ids own the files, they and all else stay as they are. ``still`` says that nothing
        changes meanwhile; a copy made without it is exact only after a second one with it, with the
        same ``copied``, and with ``since_ns``, the time when the first began, which takes what
        changed from then on. ``progress`` needs ``copied``.
        Raises ``SbxError``, ``CanceledError`` when ``progress`` was cancelled; then ``target`` may
        be there in part.
        """
        await self._call(
            "copy",
            made=target,  # the second copy takes everything where nothing is left of the first
            fds=descriptors_of(copied, progress),
            source=self._path(source),
            target=self._path(target),
            since_ns=since_ns,
            still=still,
            timeout=_COPY_TIMEOUT,
        )

    async def unpack(self, sources: list[Path], target: Path) -> None:
        """Make a directory of the layers of a container image, in one directory, lowest first.

        Owners are those of the archives, as sandboxes see them. Raises ``SbxError``; then
        ``target`` may be there in part.
        """
        folder = os.open(sources[0].parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            await self.unpack_from(folder, [source.name for source in sources], target)
        finally:
            os.close(folder)

    async def unpack_from(
        self, folder: int, names: list[str], target: Path, *, owner: int | None = None
    ) -> None:
        """Like ``unpack``, of archives in one directory; others than of ``owner`` are refused."""
        await self._call(
            "unpack",
            made=target,
            fds=[folder],
            names=names,
            owner=owner,
            target=self._path(target),
            timeout=_COPY_TIMEOUT,
        )

    async def merge(self, layers: tuple[Path, ...], target: Path) -> None:
        """Make one new layer of several, topmost first, that shows the same and hides the same.

        Raises ``SbxError``; then ``target`` may be there in part.
        """
        await self._call(
            "merge",
            made=target,
            target=self._path(target),
            sources=[self._path(layer) for layer in layers],
            timeout=_COPY_TIMEOUT,
        )

    async def compare(self, comparison: Comparison) -> Reply:
        """The fields of a ``Diff``, whatever ids own the files. Raises ``SbxError``."""
        return await self._call(
            "compare", attempts=_ATTEMPTS_TO_MEASURE, stacks=_as_text(comparison), timeout=600
        )

    async def archive(self, comparison: Comparison, writer: int) -> None:
        """Write the changed files as a tar to a pipe, which stays the caller's.

        Returns when all is written or nobody reads. Raises ``SbxError``.
        """
        await self._call(
            "archive",
            attempts=1,
            fds=[writer],
            stacks=_as_text(comparison),
            timeout=_COPY_TIMEOUT,
        )

    async def move(self, directory: Path, target: Path) -> None:
        """Rename a directory, whatever ids own it. Raises ``SbxError``."""
        await self._call(
            "move", path=self._path(directory), target=self._path(target), attempts=1, timeout=60
        )

    async def use_volume(self, root: Path, call: dict[str, Any], timeout: float) -> Reply:
        """Run a call of ``stored/volume_calls.py`` as the owner of the files.

        The descriptors of the answer are the caller's. Raises ``SbxError``.
        """
        attempts = _ATTEMPTS_TO_MEASURE if call["op"] in _REPEATABLE else 1
        return await self._call(
            "use_volume", attempts=attempts, root=self._path(root), call=call, timeout=timeout
        )

    async def _call(
        self,
        op: str,
        *,
        timeout: float,
        made: Path | None = None,
        attempts: int = _ATTEMPTS,
        **fields: Any,
    ) -> Reply:
        """Ask the zygote; if it or its helper is killed over it, ask again.

        ``made`` is the directory that the operation makes: what was left of it is removed first.
        Raises as ``Channel.call``.
        """
        # Nothing goes on for a caller that has given up.
        seconds = math.ceil(timeout) + _GRACE
        for left in reversed(range(attempts)):
            zygote = await self._zygote()
            try:
                return await zygote.call(op, timeout=timeout, seconds=seconds, **fields)
            except (AbortedError, UnavailableError) as error:
                is_killed = isinstance(error, AbortedError) or not zygote.alive
                if not is_killed or not left:
                    raise
            if made is not None:
                await self.remove(made)
        raise AssertionError("unreachable")

    def _path(self, path: Path) -> str:
        return str(self._data_dir / relative_to(self._data_dir, path))
