"""Describes templates and snapshots with what depends on them, and renames them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from sbx_jupyter.engine.owners import may_use
from sbx_jupyter.engine.state.rows import now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.templates.catalogue import check_changeable, may_start_from
from sbx_jupyter.engine.templates.references import NAMESPACE, full_name, parse_reference
from sbx_jupyter.errors import AlreadyExistsError, InvalidArgumentError
from sbx_jupyter.protocol.catalogue import TemplateDetail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sbx_jupyter.engine.state.rows import BuildRow, TemplateRow
    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.engine.templates.catalogue import Catalogue
    from sbx_jupyter.protocol.disk import TemplateUse


class TemplateDetails:
    """Describes the templates that a caller may start from."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue

    def list(self, sizes: Mapping[str, TemplateUse]) -> list[TemplateDetail]:
        """All of them, newest first; ``sizes`` by id, as far as they were measured."""
        rows = [row for row in self._store.templates if may_start_from(row)]
        builds, sandboxes = self._builds_by_template(), self._sandboxes_by_template()
        found = [
            _detail(
                row,
                builds[row.template_id],
                sandboxes.get(row.template_id, []),
                sizes.get(row.template_id),
            )
            for row in rows
        ]
        return sorted(found, key=lambda each: (each.created_at, each.template_id), reverse=True)

    async def rename(self, text: str, name: str) -> TemplateDetail:
        """Give a template or snapshot another name instead of those that it has.

        Raises ``NotFoundError``, ``InvalidArgumentError`` for a bad name or a stock template,
        ``AlreadyExistsError`` for a name in use, ``PermissionDeniedError``.
        """
        aliases = (_checked(name),) if name else ()
        async with self._catalogue.changing:
            template = self._catalogue.find(parse_reference(text))
            if template.is_stock:
                raise InvalidArgumentError(f"'{template.aliases[0]}' is a stock template")
            check_changeable(template)
            for other in self._store.templates:
                is_same = other.template_id == template.template_id
                taken = set(aliases) & {*other.aliases, other.template_id}
                if taken and not is_same and (other.owner == template.owner or other.is_stock):
                    raise AlreadyExistsError(f"there is a template '{name}' already")
            template = replace(template, aliases=aliases, updated_at=now())
            await self._store.commit(Batch().put(template))
        builds = self._builds_by_template()[template.template_id]
        return _detail(
            template, builds, self._sandboxes_by_template().get(template.template_id, []), None
        )

    def _builds_by_template(self) -> dict[str, list[BuildRow]]:
        found: dict[str, list[BuildRow]] = {}
        for build in self._store.builds:
            found.setdefault(build.template_id, []).append(build)
        return found

    def _sandboxes_by_template(self) -> dict[str, list[str]]:
        """The ids of those sandboxes that the caller may use, by what they started from."""
        found: dict[str, list[str]] = {}
        for sandbox in self._store.sandboxes:
            if may_use(sandbox.owner):
                found.setdefault(sandbox.template_id, []).append(sandbox.sandbox_id)
        return found


def _detail(
    row: TemplateRow,
    builds: Sequence[BuildRow],
    sandboxes: list[str],
    size: TemplateUse | None,
) -> TemplateDetail:
    newest = max(builds, key=lambda build: (build.created_at, build.build_id))
    kind = "stock" if row.is_stock else "snapshot" if row.is_snapshot else "template"
    return TemplateDetail(
        template_id=row.template_id,
        names=[full_name(alias) for alias in row.aliases],
        kind=kind,
        is_own=not row.is_stock and may_use(row.owner),
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_spawned_at=row.last_spawned_at,
        spawn_count=row.spawn_count,
        build_id=newest.build_id,
        build_status=newest.status,
        build_count=len(builds),
        tags=sorted(row.tags),
        cpu_count=newest.cpu_count,
        memory_mb=newest.memory_mb,
        disk_size_mb=newest.disk_size_mb,
        source_sandbox_id=newest.source_sandbox_id,
        sandboxes=sandboxes,
        own_bytes=None if size is None else size.own_bytes,
        shared_bytes=None if size is None else size.shared_bytes,
    )


def _checked(name: str) -> str:
    """The name without the namespace; raises ``InvalidArgumentError``."""
    reference = parse_reference(name)
    if reference.tag is not None or ":" in name:
        raise InvalidArgumentError("a name of a template takes no tag")
    if reference.namespace not in (None, NAMESPACE):
        raise InvalidArgumentError(f"the namespace of a name is '{NAMESPACE}'")
    return reference.name
