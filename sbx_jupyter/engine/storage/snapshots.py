"""Snapshots and forks: what a running sandbox has written, for others to start from.

They hold files, not memory: processes of the source are not in them (interface 1.4 and 9.5).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from sbx_jupyter.engine.sandboxes.admission import check_timeout
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.sandboxes.listing import MAX_PAGE, Cursor, check_limit, parse_cursor
from sbx_jupyter.engine.sandboxes.placement import freeze
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.rows import BuildRow, SandboxRow, TagAssignment, TemplateRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.templates.references import (
    DEFAULT_TAG,
    NAMESPACE,
    Reference,
    full_name,
    parse_reference,
)
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.engine.watch.meters import metered
from sbx_jupyter.errors import (
    AbortedError,
    CanceledError,
    InvalidArgumentError,
    NotFoundError,
    SbxError,
)
from sbx_jupyter.protocol.access import new_access_token, new_sandbox_id, random_id
from sbx_jupyter.protocol.platform import SnapshotInfo

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import AsyncIterator

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.creation import Creation
    from sbx_jupyter.engine.sandboxes.long_operations import Work
    from sbx_jupyter.engine.sandboxes.slots import Slot
    from sbx_jupyter.engine.sandboxes.supervisor import Supervisor
    from sbx_jupyter.engine.storage.layer_stacks import Stack
    from sbx_jupyter.engine.storage.layers import Layers
    from sbx_jupyter.engine.templates.catalog import Catalog

_log = logging.getLogger(__name__)

_MAX_FORKS: Final = 100
_MAX_LAYERS: Final = 60
"""A snapshot of a sandbox on more waits until they are made fewer."""

_LONG: Final = 1.0
"""Seconds after which it is said how much there is to copy."""

_NOT_CARRIED: Final = "processes, memory, open terminals and connections"


@dataclass(frozen=True, slots=True)
class SnapshotFilter:
    """Which snapshots a list shows (interface 1.4)."""

    sandbox_id: str | None = None
    name: str | None = None
    limit: int = MAX_PAGE
    next_token: str | None = None


class _Found(NamedTuple):
    template: TemplateRow
    tag: str
    at: dt.datetime

    @property
    def snapshot_id(self) -> str:
        if self.template.aliases:
            return full_name(self.template.aliases[0], self.tag)
        return f"{self.template.template_id}:{self.tag}"

    def to_info(self) -> SnapshotInfo:
        names = [full_name(alias, self.tag) for alias in self.template.aliases]
        return SnapshotInfo(snapshot_id=self.snapshot_id, names=names)


class Captured(NamedTuple):
    """A copy of what a sandbox has written."""

    layer: str
    size: int
    seconds: float
    stopped_seconds: float

    def fields(self) -> dict[str, str]:
        """For the log."""
        return {
            "bytes": str(self.size),
            "seconds": f"{self.seconds:.3f}",
            "stopped_ms": f"{self.stopped_seconds * 1000:.1f}",
        }


class Snapshots:
    """Captures the writable layers of running sandboxes."""

    def __init__(
        self,
        context: Context,
        layers: Layers,
        supervisor: Supervisor,
        catalog: Catalog,
        creation: Creation,
    ) -> None:
        self._context = context
        self._layers = layers
        self._supervisor = supervisor
        self._catalog = catalog
        self._creation = creation

    def start(self) -> None:
        """Take up what the engine before did not finish."""
        self._context.flattener.consider_all()

    @metered("snapshot")
    async def create(self, sandbox_id: str, name: str | None = None) -> SnapshotInfo:
        """Keep what a running sandbox has written as a template build (S19).

        A name that there is gets a new build. Raises ``NotFoundError``, ``AbortedError`` in
        transition, ``InvalidArgumentError`` for the name, ``NoSpaceError``.
        """
        reference = None if name is None else self._check_name(name)
        slot = self._context.slots.find(sandbox_id)
        operations = self._context.operations
        async with slot.operate("snapshot"), self._layers.reserve() as layer:
            with operations.begin(sandbox_id, "snapshot") as work:
                captured = await self._capture(slot, layer, work)
                reached("snapshot.thawed")
                return await self._store(slot.row, captured, reference)

    @metered("fork")
    async def fork(self, sandbox_id: str, timeout: int, count: int) -> list[SandboxRow | SbxError]:
        """Start copies of a running sandbox (S11); each is a row or the error that stopped it."""
        config = self._context.config
        if not 1 <= count <= _MAX_FORKS:
            raise InvalidArgumentError(f"count must be between 1 and {_MAX_FORKS}")
        if count >= config.max_sandboxes:
            raise InvalidArgumentError(
                f"count must be less than the maximum of {config.max_sandboxes} sandboxes"
            )
        if timeout < 0:
            raise InvalidArgumentError("Timeout must be greater than or equal to 0")
        check_timeout(timeout, config.max_timeout)
        slot = self._context.slots.find(sandbox_id)
        operations = self._context.operations
        async with self._layers.reserve() as layer:
            with operations.begin(sandbox_id, "fork") as work, contextlib.ExitStack() as held:
                async with slot.operate("fork"):
                    captured = await self._capture(slot, layer, work)
                    row = slot.row
                    stack = (captured.layer, *self._layers.shorten(row.layers))
                    # The source may end from here on; the forks stand on its layers all the same.
                    held.enter_context(self._layers.hold(stack))
                reached("fork.copied")
                work.phase = "starting"
                drafts = [self._fork_of(row, stack, timeout) for _ in range(count)]
                results = list(await asyncio.gather(*map(self._launch, drafts)))
                await self._tell_forked(row, captured, results)
        self._context.flattener.consider(stack)
        return results

    async def _tell_forked(
        self, row: SandboxRow, captured: Captured, results: list[SandboxRow | SbxError]
    ) -> None:
        """Say in the logs of source and forks what became of it."""
        made = [result.sandbox_id for result in results if isinstance(result, SandboxRow)]
        batch = Batch()
        for sandbox_id in made:
            batch.log(
                logs.entry(
                    sandbox_id,
                    "info",
                    "Forked: the files are those of the source",
                    source=row.sandbox_id,
                    not_carried=_NOT_CARRIED,
                )
            )
        level: logs.Level = "info" if len(made) == len(results) else "warn"
        fields = {"forks": ", ".join(made), "failed": str(len(results) - len(made))}
        batch.log(logs.entry(row.sandbox_id, level, "Forked", **fields, **captured.fields()))
        await self._context.commit(batch)

    async def _capture(self, slot: Slot, layer: str, work: Work) -> Captured:
        """Copy what a running sandbox has written, stopping it for what changed meanwhile only.

        Raises ``AbortedError`` when it was cancelled.
        """
        if len(self._layers.shorten(slot.row.layers)) >= _MAX_LAYERS:
            await self._context.flattener.flatten(slot.row.layers)
        if await self._layers.is_instant(slot.sandbox_id):
            return await self._take(slot, layer, work)
        telling = asyncio.create_task(self._tell_size(slot.sandbox_id, work))
        try:
            stopped = await self._copy(slot, layer, work)
        except CanceledError:
            entry = logs.entry(slot.sandbox_id, "info", f"The {work.kind} was cancelled")
            await self._context.commit(Batch().log(entry))
            raise AbortedError(f"the {work.kind} of {slot.sandbox_id} was cancelled") from None
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        work.phase = "storing"
        await self._layers.settle(layer)
        took = (now() - work.started_at).total_seconds()
        return Captured(layer, work.progress.done, took, stopped)

    async def _take(self, slot: Slot, layer: str, work: Work) -> Captured:
        """Capture the subvolume of a sandbox, which takes no time whatever is in it."""
        work.phase = "storing"
        # The snapshot brings the files to the disk first; most of that while the sandbox runs.
        await self._layers.flush(slot.sandbox_id)
        work.phase = "finishing"
        async with self._frozen(slot):
            since = time.monotonic()
            reached("snapshot.frozen")
            taken = await self._layers.take(slot.sandbox_id, layer)
            reached("snapshot.copied")
        stopped = time.monotonic() - since
        return Captured(taken, 0, (now() - work.started_at).total_seconds(), stopped)

    async def _copy(self, slot: Slot, layer: str, work: Work) -> float:
        """Copy twice, the second time with the sandbox frozen; how long that was, in seconds."""
        began = time.time_ns()
        await self._layers.capture(slot.sandbox_id, layer, still=False, progress=work.progress)
        work.phase = "finishing"
        async with self._frozen(slot):
            since = time.monotonic()
            reached("snapshot.frozen")
            await self._layers.capture(slot.sandbox_id, layer, since_ns=began)
            reached("snapshot.copied")
        return time.monotonic() - since

    async def _tell_size(self, sandbox_id: str, work: Work) -> None:
        """Find out and say how much there is to copy, when that takes long."""
        await asyncio.sleep(_LONG)
        try:
            work.total_bytes = await self._layers.measure(sandbox_id)
            fields = {"bytes": str(work.total_bytes), "operation_id": work.operation_id}
            message = f"Copying the files of the sandbox for a {work.kind}"
            entry = logs.entry(sandbox_id, "info", message, **fields)
            await self._context.commit(Batch().log(entry))
        except SbxError as error:
            _log.debug("not measured: %s", error, extra={"sandbox_id": sandbox_id})

    def list(self, wanted: SnapshotFilter) -> tuple[list[SnapshotInfo], str | None]:
        """Snapshots, newest first, and the cursor of the next page (S20)."""
        check_limit(wanted.limit)
        found = self._select(wanted)
        found.sort(key=lambda item: item.snapshot_id)
        found.sort(key=lambda item: item.at, reverse=True)
        if wanted.next_token:
            cursor = parse_cursor(wanted.next_token, "desc")
            found = [item for item in found if cursor.precedes(item.at, item.snapshot_id)]
        page = found[: wanted.limit]
        token = None
        if page and len(page) < len(found):
            token = Cursor(page[-1].at, page[-1].snapshot_id, "desc").format()
        return [item.to_info() for item in page], token

    def _select(self, wanted: SnapshotFilter) -> list[_Found]:
        templates = list(self._context.store.templates)
        tag = None
        if wanted.name:
            reference = parse_reference(wanted.name)
            if ":" in wanted.name:
                tag = reference.tag or DEFAULT_TAG
            try:
                templates = [self._catalog.find(reference)]
            except NotFoundError:
                return []
        found: list[_Found] = []
        for template in templates:
            for name, assignment in template.tags.items():
                build = self._context.store.builds.get(assignment.build_id)
                source = None if build is None else build.source_sandbox_id
                if source is None or (tag is not None and name != tag):
                    continue
                if wanted.sandbox_id in (None, source):
                    found.append(_Found(template, name, assignment.created_at))
        return found

    def _check_name(self, name: str) -> Reference:
        reference = parse_reference(name)
        if reference.namespace not in (None, NAMESPACE):
            raise InvalidArgumentError(
                f"namespace '{reference.namespace}' must match your team '{NAMESPACE}'"
            )
        with contextlib.suppress(NotFoundError):
            if self._catalog.find(reference).is_stock:
                raise InvalidArgumentError(f"'{reference.name}' is a stock template")
        return reference

    @contextlib.asynccontextmanager
    async def _frozen(self, slot: Slot) -> AsyncIterator[None]:
        """Hold the processes of a running sandbox still meanwhile."""
        placed = slot.placed
        if placed is None:
            raise NotFoundError("The sandbox was not found")
        slot.move(State.SNAPSHOTTING)
        try:
            await freeze(placed)
            try:
                yield
            finally:
                if slot.placed is not None:
                    await self._supervisor.wake(slot)
        finally:
            if slot.state is State.SNAPSHOTTING:
                slot.move(State.RUNNING)

    async def _store(
        self, row: SandboxRow, captured: Captured, reference: Reference | None
    ) -> SnapshotInfo:
        at = now()
        tag = DEFAULT_TAG if reference is None or reference.tag is None else reference.tag
        template = self._template(reference, at)
        build = BuildRow(
            build_id=str(uuid.uuid4()),
            template_id=template.template_id,
            status="ready",
            created_at=at,
            updated_at=at,
            finished_at=at,
            cpu_count=row.cpu_count,
            memory_mb=row.memory_mb,
            disk_size_mb=row.disk_size_mb,
            base=row.base,
            layers=(captured.layer, *self._layers.shorten(row.layers)),
            default_user=row.default_user,
            default_cwd=row.default_cwd,
            envs=row.template_envs,
            start_command=row.start_command,
            ready_command=row.ready_command,
            source_sandbox_id=row.sandbox_id,
        )
        assignment = TagAssignment(build_id=build.build_id, created_at=at)
        template = replace(template, updated_at=at, tags={**template.tags, tag: assignment})
        found = _Found(template, tag, at)
        fields = {"snapshot_id": found.snapshot_id, **captured.fields()}
        fields["not_carried"] = _NOT_CARRIED
        entry = logs.entry(row.sandbox_id, "info", "Snapshot made", **fields)
        await self._context.commit(Batch(puts=[template, build], logs=[entry]))
        reached("snapshot.stored")
        self._context.flattener.consider(build.layers)
        return found.to_info()

    def _template(self, reference: Reference | None, at: dt.datetime) -> TemplateRow:
        if reference is not None:
            with contextlib.suppress(NotFoundError):
                return self._catalog.find(reference)
        return TemplateRow(
            template_id=random_id(20),
            aliases=() if reference is None else (reference.name,),
            created_at=at,
            updated_at=at,
            is_snapshot=True,
        )

    def _fork_of(self, row: SandboxRow, stack: Stack, timeout: int) -> SandboxRow:
        return replace(
            row,
            sandbox_id=new_sandbox_id(),
            state=State.CREATING,
            timeout=timeout,
            access_token=None if row.access_token is None else new_access_token(),
            traffic_token=None if row.traffic_token is None else new_access_token(),
            layers=stack,
            cage=None,
        )

    async def _launch(self, draft: SandboxRow) -> SandboxRow | SbxError:
        try:
            row = await self._creation.launch(draft)
        except SbxError as error:
            return error
        reached("fork.launched")
        return row
