"""The catalogue of snapshots: makes them from running sandboxes and lists them (interface 1.4).

A snapshot is a template build. It has the files of its source but none of its processes.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from sbx_jupyter.engine import pages
from sbx_jupyter.engine.owners import caller, may_use
from sbx_jupyter.engine.pages import MAX_PAGE
from sbx_jupyter.engine.state import logs
from sbx_jupyter.engine.state.rows import BuildRow, TagAssignment, TemplateRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.storage.capture import NOT_CAPTURED
from sbx_jupyter.engine.templates.references import (
    DEFAULT_TAG,
    NAMESPACE,
    Reference,
    full_name,
    parse_reference,
)
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.engine.watch.meters import metered
from sbx_jupyter.errors import InvalidArgumentError, NotFoundError
from sbx_jupyter.protocol.access import random_id
from sbx_jupyter.protocol.platform import SnapshotInfo

if TYPE_CHECKING:
    import datetime as dt

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.state.rows import SandboxRow
    from sbx_jupyter.engine.storage.capture import Capture, CapturedLayer
    from sbx_jupyter.engine.storage.flatten import Flattener
    from sbx_jupyter.engine.templates.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class SnapshotFilter:
    """Selects the snapshots of a list (interface 1.4)."""

    sandbox_id: str | None = None
    name: str | None = None
    limit: int = MAX_PAGE
    next_token: str | None = None


class _TaggedSnapshot(NamedTuple):
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


class Snapshots:
    """Makes and lists snapshots."""

    def __init__(
        self, context: Context, flattener: Flattener, capture: Capture, catalogue: Catalogue
    ) -> None:
        self._context = context
        self._flattener = flattener
        self._layers = context.layers
        self._capture = capture
        self._catalogue = catalogue

    async def create(self, sandbox_id: str, name: str | None = None) -> SnapshotInfo:
        """Store what a running sandbox has written as a template build (S19).

        A name that exists already gets a new build. Raises ``NotFoundError``, ``AbortedError`` in
        transition, ``InvalidArgumentError`` for the name, ``NoSpaceError``. Goes on when the caller
        is cancelled.
        """
        return await self._context.tasks.complete(self._create(sandbox_id, name), "sbx-snapshot")

    @metered("snapshot")
    async def _create(self, sandbox_id: str, name: str | None) -> SnapshotInfo:
        reference = None if name is None else self._parse_name(name)
        slot = self._context.slots.find(sandbox_id)
        operations = self._context.operations
        async with slot.operate("snapshot"), self._layers.reserve() as layer:
            with operations.begin(sandbox_id, "snapshot") as work:
                captured = await self._capture.capture(slot, layer, work)
                reached("snapshot.thawed")
                async with self._catalogue.changing:
                    return await self._store(slot.row, captured, reference)

    def list(self, query: SnapshotFilter) -> tuple[list[SnapshotInfo], str | None]:
        """Snapshots, newest first, and the cursor of the next page (S20)."""
        page, token = pages.cut(
            self._select(query),
            lambda item: (item.at, item.snapshot_id),
            limit=query.limit,
            token=query.next_token,
        )
        return [item.to_info() for item in page], token

    def _select(self, query: SnapshotFilter) -> list[_TaggedSnapshot]:
        templates = [item for item in self._context.store.templates if may_use(item.owner)]
        tag = None
        if query.name:
            reference = parse_reference(query.name)
            if ":" in query.name:
                tag = reference.tag or DEFAULT_TAG
            try:
                templates = [self._catalogue.find(reference)]
            except NotFoundError:
                return []
        found: list[_TaggedSnapshot] = []
        for template in templates:
            for name, assignment in template.tags.items():
                build = self._context.store.builds.get(assignment.build_id)
                source = None if build is None else build.source_sandbox_id
                if source is None or (tag is not None and name != tag):
                    continue
                if query.sandbox_id in (None, source):
                    found.append(_TaggedSnapshot(template, name, assignment.created_at))
        return found

    def _parse_name(self, name: str) -> Reference:
        reference = parse_reference(name)
        if reference.namespace not in (None, NAMESPACE):
            raise InvalidArgumentError(
                f"namespace '{reference.namespace}' must match your team '{NAMESPACE}'"
            )
        with contextlib.suppress(NotFoundError):
            if self._catalogue.find(reference).is_stock:
                raise InvalidArgumentError(f"'{reference.name}' is a stock template")
        return reference

    async def _store(
        self, row: SandboxRow, captured: CapturedLayer, reference: Reference | None
    ) -> SnapshotInfo:
        at = now()
        tag = DEFAULT_TAG if reference is None or reference.tag is None else reference.tag
        template = self._find_or_make_template(reference, at)
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
            layers=self._layers.put_on(captured.name, row.layers),
            default_user=row.default_user,
            default_cwd=row.default_cwd,
            envs=row.template_envs,
            start_command=row.start_command,
            ready_command=row.ready_command,
            source_sandbox_id=row.sandbox_id,
        )
        assignment = TagAssignment(build_id=build.build_id, created_at=at)
        template = replace(template, updated_at=at, tags={**template.tags, tag: assignment})
        found = _TaggedSnapshot(template, tag, at)
        fields = {"snapshot_id": found.snapshot_id, **captured.log_fields()}
        fields["not_carried"] = NOT_CAPTURED
        entry = logs.entry(row.sandbox_id, "info", "Snapshot made", **fields)
        await self._context.commit(Batch(puts=[template, build], logs=[entry]))
        reached("snapshot.stored")
        self._flattener.consider(build.layers)
        return found.to_info()

    def _find_or_make_template(self, reference: Reference | None, at: dt.datetime) -> TemplateRow:
        if reference is not None:
            found = self._catalogue.find_own(reference)
            if found is not None:
                return found
        return TemplateRow(
            template_id=random_id(20),
            aliases=() if reference is None else (reference.name,),
            created_at=at,
            updated_at=at,
            is_snapshot=True,
            owner=caller().owner,
        )
