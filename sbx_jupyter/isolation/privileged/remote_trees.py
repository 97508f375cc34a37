"""Trees and volumes as the helper works on them; the methods are those of the local classes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.isolation.privileged import messages
from sbx_jupyter.isolation.stored.trees import StoredTrees
from sbx_jupyter.isolation.stored.volume_content import Draft, VolumeContent, clean_path
from sbx_jupyter.isolation.tree_operations import descriptors_of, relative_to
from sbx_jupyter.protocol.diff import Diff
from sbx_jupyter.protocol.volumes import VolumeEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sbx_jupyter.isolation.privileged.connection import HelperConnection
    from sbx_jupyter.isolation.stored.trees import Stacks
    from sbx_jupyter.isolation.stored.volume_content import Ownership
    from sbx_jupyter.isolation.trees.copied_directories import CopiedDirectories
    from sbx_jupyter.isolation.zygote.progress import Progress

_LONG: Final = 3600.0
_MEASURE_TIMEOUT: Final = 600.0
_MOST_REASON: Final = 2000


class RemoteTreeOperations:
    """Removes, measures, copies, unpacks and merges trees."""

    def __init__(self, data_dir: Path, connection: HelperConnection) -> None:
        self._data_dir = data_dir
        self._connection = connection

    async def remove(self, directory: Path) -> None:
        await self._connection.insist(messages.Remove(tree=self._name(directory)), timeout=_LONG)

    async def measure(self, writable: Path) -> tuple[int, int]:
        (found,) = await self.measure_all([writable / "upper"])
        if found is None:
            raise UnavailableError(f"{writable} could not be measured")
        return found

    async def measure_all(self, trees: Sequence[Path]) -> list[tuple[int, int] | None]:
        message = messages.Measure(trees=[self._name(tree) for tree in trees])
        body = await self._connection.insist(message, timeout=_MEASURE_TIMEOUT)
        return [None if size is None else (size[0], size[1]) for size in body["sizes"]]

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
        message = messages.Copy(
            source=self._name(source), target=self._name(target), since_ns=since_ns, still=still
        )
        await self._connection.call(message, descriptors_of(copied, progress), timeout=_LONG)

    async def unpack(self, sources: list[Path], target: Path) -> None:
        folder = os.open(sources[0].parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        names = [source.name for source in sources]
        try:
            message = messages.Unpack(target=self._name(target), names=names)
            await self._connection.call(message, [folder], timeout=_LONG)
        finally:
            os.close(folder)

    async def merge(self, layers: tuple[Path, ...], target: Path) -> None:
        message = messages.Merge(
            sources=[self._name(layer) for layer in layers], target=self._name(target)
        )
        await self._connection.call(message, timeout=_LONG)

    def _name(self, path: Path) -> str:
        return relative_to(self._data_dir, path)


class RemoteTrees:
    """Makes, moves, reads and syncs trees; all methods block, for threads."""

    def __init__(self, connection: HelperConnection) -> None:
        self._ask = connection.ask

    def seal(self, writable: str, layer: str) -> str:
        return self._ask(messages.Seal(writable=writable, layer=layer))[0]["layer"]

    def take_snapshot(self, writable: str, layer: str) -> None:
        self._ask(messages.TakeSnapshot(writable=writable, layer=layer))

    def sync(self, name: str) -> None:
        self._ask(messages.Sync(tree=name), timeout=_LONG)

    def set_aside(self, name: str, kind: str, reason: str) -> str:
        message = {"op": "set_aside", "tree": name, "kind": kind, "reason": reason[:_MOST_REASON]}
        return self._ask(msgspec.convert(message, messages.SetAside))[0]["entry"]

    def make_volume(self, volume_id: str, limit: int = 0) -> None:
        self._ask(messages.MakeVolume(volume_id=volume_id, limit=limit))

    def retire_volume(self, volume_id: str) -> None:
        self._ask(messages.RetireVolume(volume_id=volume_id))

    def remove_retired(self, volume_id: str, step: Callable[[], None]) -> None:
        self._ask(messages.RemoveRetired(volume_id=volume_id), timeout=_LONG)

    def volume(self, volume_id: str, *, real_ids: bool) -> RemoteVolume:
        return RemoteVolume(self._ask, volume_id)

    def compare(self, stacks: Stacks, *, on_stock: bool) -> Diff:
        message = messages.Compare(
            ours=list(stacks.ours),
            theirs=list(stacks.theirs),
            common=list(stacks.common),
            on_stock=on_stock,
        )
        return msgspec.convert(self._ask(message, timeout=_MEASURE_TIMEOUT)[0], Diff)

    def archive(self, stacks: Stacks, *, on_stock: bool) -> int:
        message = messages.Archive(
            ours=list(stacks.ours),
            theirs=list(stacks.theirs),
            common=list(stacks.common),
            on_stock=on_stock,
        )
        return _only(self._ask(message)[1])


class RemoteVolume:
    """The tree of one volume."""

    def __init__(self, ask: Callable[..., tuple[dict[str, Any], list[int]]], volume: str) -> None:
        self._ask = ask
        self._volume = volume

    def stat(self, path: str) -> VolumeEntry:
        return self._entry(messages.StatEntry(volume_id=self._volume, path=_whole(path)))

    def change(self, path: str, ownership: Ownership) -> VolumeEntry:
        return self._entry(
            messages.ChangeEntry(
                volume_id=self._volume,
                path=_whole(path),
                uid=_bounded(ownership.uid),
                gid=_bounded(ownership.gid),
                mode=_bounded(ownership.mode),
            )
        )

    def remove(self, path: str) -> None:
        message = messages.RemoveEntry(volume_id=self._volume, path=_whole(path))
        self._ask(message, timeout=_LONG)

    def list_dir(self, path: str, depth: int = 1) -> list[VolumeEntry]:
        message = messages.ListEntries(volume_id=self._volume, path=_whole(path), depth=depth)
        return msgspec.convert(self._ask(message)[0]["entries"], list[VolumeEntry])

    def make_dir(self, path: str, ownership: Ownership, *, force: bool) -> VolumeEntry:
        return self._entry(
            messages.MakeFolder(
                volume_id=self._volume,
                path=_whole(path),
                uid=_bounded(ownership.uid),
                gid=_bounded(ownership.gid),
                mode=_bounded(ownership.mode),
                force=force,
            )
        )

    def open_read(self, path: str) -> tuple[int, int]:
        message = messages.OpenRead(volume_id=self._volume, path=_whole(path))
        body, fds = self._ask(message)
        return _only(fds), body["size"]

    def open_write(self, path: str, ownership: Ownership, *, force: bool) -> Draft:
        message = messages.OpenWrite(
            volume_id=self._volume,
            path=_whole(path),
            uid=_bounded(ownership.uid),
            gid=_bounded(ownership.gid),
            mode=_bounded(ownership.mode),
            force=force,
        )
        body, fds = self._ask(message)
        return Draft(_only(fds), body["draft"])

    def finish_write(self, path: str, draft: str, *, force: bool) -> None:
        self._ask(
            messages.FinishWrite(
                volume_id=self._volume, path=_whole(path), draft=draft, force=force
            )
        )

    def drop_write(self, path: str, draft: str) -> None:
        self._ask(messages.DropWrite(volume_id=self._volume, path=_whole(path), draft=draft))

    def _entry(self, message: messages.Message) -> VolumeEntry:
        return msgspec.convert(self._ask(message)[0]["entry"], VolumeEntry)


AnyTrees = StoredTrees | RemoteTrees
AnyVolume = VolumeContent | RemoteVolume


def _whole(path: str) -> str:
    """A path that the helper takes; raises ``InvalidArgumentError`` for any other."""
    clean_path(path)
    return path


def _bounded(value: int | None) -> int | None:
    """Any negative number stands for no change or the default."""
    return value if value is None else max(value, -1)


def _only(fds: list[int]) -> int:
    if len(fds) != 1:
        wire.close_all(fds)
        raise UnavailableError("the helper gave no descriptor")
    return fds.pop()
