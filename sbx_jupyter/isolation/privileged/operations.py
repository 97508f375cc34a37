"""Carries out each message to the helper."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sbx_jupyter.agent.procfs import has_ended
from sbx_jupyter.errors import InvalidArgumentError, NotFoundError
from sbx_jupyter.isolation.fence_spec import FenceSpec, Limits
from sbx_jupyter.isolation.private_files import write_private
from sbx_jupyter.isolation.privileged import messages as asked
from sbx_jupyter.isolation.privileged.network_operations import NetworkOperations, as_socket
from sbx_jupyter.isolation.stored import volume_calls
from sbx_jupyter.isolation.trees.copied_directories import CopiedDirectories
from sbx_jupyter.isolation.zygote.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Generator

    from sbx_jupyter.isolation.cage import Cage
    from sbx_jupyter.isolation.fence import Fence
    from sbx_jupyter.isolation.privileged.helper_options import HelperOptions
    from sbx_jupyter.isolation.tiers import IsolationReport

Answer = Any
"""Anything that ``msgspec`` encodes as a JSON object."""

_DONE: Final[dict[str, object]] = {}


class Operations:
    """Runs messages on one fence."""

    def __init__(
        self, fence: Fence, report: IsolationReport, tier: str, options: HelperOptions
    ) -> None:
        self._fence = fence
        self._report = report
        self._tier = tier
        self._options = options
        self._folder = Path(options.data_dir)
        self._real_ids = report.users != "virtual"
        self._cages: dict[str, Cage] = {}
        self._making: dict[str, asyncio.Event] = {}
        """Sandboxes that are being made; the event is set when that has ended."""
        self._networks = NetworkOperations(
            fence.connections, self._living, full=options.network == "full"
        )

    async def run(self, message: asked.Message, fds: list[int], given: list[int]) -> Answer:
        """Do what a message asks.

        The caller closes ``fds``, which came along, and ``given``, which go with the answer. Raises
        ``SbxError`` and ``OSError``.
        """
        match message:
            case asked.Describe():
                return self._describe()
            case asked.Create():
                return await self._create(message, fds, given)
            case asked.OfVolume():
                return await asyncio.to_thread(self._use_volume, message, given)
            case asked.OfNetwork() | asked.CollectTaps():
                return await self._networks.run(message, fds, given)
            case asked.Compare() | asked.Archive():
                return await asyncio.to_thread(self._compare, message, given)
            case asked.Adopt() | asked.Kill() | asked.Freeze() | asked.Collect():
                return await self._control(message, given)
            case asked.EndProcess() | asked.OpenFiles() | asked.Resident():
                return await self._look(message)
            case asked.Measure() | asked.Remove() | asked.Copy() | asked.Merge() | asked.Unpack():
                return await self._process_trees(message, fds)
            case _:
                return await asyncio.to_thread(self._change_trees, message)

    def _describe(self) -> Answer:
        stock = self._fence.stock
        return {
            "report": msgspec.to_builtins(self._report),
            "tier": self._tier,
            "stock": "" if stock is None else stock.name,
            "zygote": self._fence.zygote_pid,
        }

    async def _create(self, message: asked.Create, fds: list[int], given: list[int]) -> Answer:
        if len(fds) != 1:
            raise InvalidArgumentError("a sandbox needs one socket for its agent")
        spec = FenceSpec(
            sandbox_id=message.sandbox_id,
            layers=tuple(self._folder / name for name in message.layers),
            base="host" if message.on_stock else "",
            writable=self._folder / message.writable,
            limits=Limits(
                memory_mb=message.memory_mb,
                cpu_count=message.cpu_count,
                processes=message.processes,
                disk_mb=message.disk_mb,
                open_files=message.open_files,
            ),
            volumes=tuple(
                (self._folder / "volumes" / volume_id, target)
                for volume_id, target in message.volumes
            ),
        )
        sandbox_id = message.sandbox_id
        if sandbox_id in self._making or self._living(sandbox_id) is not None:
            raise InvalidArgumentError(f"there is a sandbox {sandbox_id} already")
        made = self._making[sandbox_id] = asyncio.Event()
        try:
            with _as_listener(fds[0]) as listener:
                cage = self._cages[sandbox_id] = await self._fence.create(spec, listener)
        finally:
            del self._making[sandbox_id]
            made.set()
        return self._show(cage, given)

    async def _kill(self, sandbox_id: str) -> None:
        """End a sandbox. One that is being made ends when it is made: nobody waits for it."""
        if (made := self._making.get(sandbox_id)) is not None:
            await made.wait()
        cage = self._living(sandbox_id)
        self._cages.pop(sandbox_id, None)
        if cage is None:
            await self._fence.end_unheard(sandbox_id)
        else:
            await cage.kill()
            cage.close()

    def _living(self, sandbox_id: str) -> Cage | None:
        """The cage of a sandbox that lives, also when an earlier helper made it."""
        cage = self._cages.get(sandbox_id)
        if cage is not None and not has_ended(cage.pidfd):
            return cage
        if cage is not None:  # found while it was being ended
            del self._cages[sandbox_id]
            cage.close()
        state = self._fence.recorded(sandbox_id)
        cage = None if state is None else self._fence.adopt(sandbox_id, state)
        if cage is not None:
            self._cages[sandbox_id] = cage
        return cage

    def _cage(self, sandbox_id: str) -> Cage:
        cage = self._living(sandbox_id)
        if cage is None:
            raise NotFoundError(f"there is no sandbox {sandbox_id}")
        return cage

    def _show(self, cage: Cage | None, given: list[int]) -> Answer:
        if cage is None:
            return {"state": None}
        given.append(os.dup(cage.pidfd))
        return {"state": cage.to_state()}

    async def _control(
        self, message: asked.Adopt | asked.Kill | asked.Freeze | asked.Collect, given: list[int]
    ) -> Answer:
        match message:
            case asked.Adopt():
                return self._show(self._living(message.sandbox_id), given)
            case asked.Kill():
                await self._kill(message.sandbox_id)
            case asked.Freeze():
                cage = self._cage(message.sandbox_id)
                await (cage.freeze() if message.frozen else cage.thaw())
            case asked.Collect():
                await self._fence.collect(set(message.known))
        return _DONE

    async def _look(self, message: asked.EndProcess | asked.OpenFiles | asked.Resident) -> Answer:
        cage = self._cage(message.sandbox_id)
        match message:
            case asked.EndProcess():
                return {"name": await asyncio.to_thread(cage.end_process, message.pid)}
            case asked.Resident():
                found = await asyncio.to_thread(cage.memory, exact=True)
                pairs = {str(pid): (each.resident, each.in_files) for pid, each in found.items()}
                return {"found": pairs}
            case asked.OpenFiles():
                return await self._fence.open_files(cage)

    async def _process_trees(
        self,
        message: asked.Measure | asked.Remove | asked.Copy | asked.Merge | asked.Unpack,
        fds: list[int],
    ) -> Answer:
        trees, folder = self._fence.tree_operations, self._folder
        match message:
            case asked.Measure():
                return {"sizes": await trees.measure_all([folder / name for name in message.trees])}
            case asked.Remove():
                await trees.remove(folder / message.tree)
            case asked.Copy():
                await trees.copy(
                    folder / message.source,
                    folder / message.target,
                    since_ns=message.since_ns,
                    still=message.still,
                    copied=CopiedDirectories(fds[0]) if fds else None,
                    progress=Progress(fds[1]) if len(fds) > 1 else None,
                )
            case asked.Merge():
                sources = tuple(folder / name for name in message.sources)
                await trees.merge(sources, folder / message.target)
            case asked.Unpack():
                await trees.unpack_from(
                    fds[0], message.names, folder / message.target, owner=self._options.owner
                )
        return _DONE

    def _change_trees(self, message: asked.Message) -> Answer:
        stored = self._fence.stored
        match message:
            case asked.Seal():
                return {"layer": stored.seal(message.writable, message.layer)}
            case asked.TakeSnapshot():
                stored.take_snapshot(message.writable, message.layer)
            case asked.Sync():
                stored.sync(message.tree)
            case asked.SetAside():
                owner = self._options.owner
                tree, kind = message.tree, message.kind
                return {"entry": stored.set_aside(tree, kind, message.reason, group=owner)}
            case asked.MakeVolume():
                stored.make_volume(message.volume_id, message.limit)
            case asked.RetireVolume():
                stored.retire_volume(message.volume_id)
            case asked.RemoveRetired():
                stored.remove_retired(message.volume_id, lambda: None)
            case asked.Publish():
                path = Path(self._options.connection_file)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_private(path, message.content.encode())
            case asked.Unpublish():
                Path(self._options.connection_file).unlink(missing_ok=True)
            case _:
                raise InvalidArgumentError(f"{type(message).__name__} is no message for here")
        return _DONE

    def _compare(self, message: asked.Compare | asked.Archive, given: list[int]) -> Answer:
        stacks = asked.Stacks(tuple(message.ours), tuple(message.theirs), tuple(message.common))
        if isinstance(message, asked.Compare):
            return self._fence.stored.compare(stacks, on_stock=message.on_stock)
        given.append(self._fence.stored.archive(stacks, on_stock=message.on_stock))
        return _DONE

    def _use_volume(self, message: asked.OfVolume, given: list[int]) -> Answer:
        content = self._fence.stored.volume(message.volume_id, real_ids=self._real_ids)
        return volume_calls.run(content, msgspec.to_builtins(message), given)


@contextlib.contextmanager
def _as_listener(descriptor: int) -> Generator[socket.socket]:
    """The socket behind a descriptor, which stays open. Raises ``InvalidArgumentError``."""
    with as_socket(descriptor) as listener:
        if listener.family != socket.AF_UNIX or listener.type != socket.SOCK_SEQPACKET:
            raise InvalidArgumentError("the descriptor is no socket for an agent")
        yield listener
