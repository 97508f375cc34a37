"""Templates as clients see them (interface 1.5, T7 and T12 to T17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from sbx_jupyter.engine import pages
from sbx_jupyter.engine.state.rows import now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.templates.catalogue import check_changeable, may_start_from
from sbx_jupyter.engine.templates.references import DEFAULT_TAG, full_name, parse_reference
from sbx_jupyter.errors import NotFoundError, PermissionDeniedError
from sbx_jupyter.protocol.platform import RUNTIME_VERSION
from sbx_jupyter.protocol.templates import (
    AliasAnswer,
    Template,
    TemplateAnswer,
    TemplateBuild,
    TemplateNames,
    TemplateWithBuilds,
)

if TYPE_CHECKING:
    import datetime as dt

    from sbx_jupyter.engine.state.rows import BuildRow, TemplateRow
    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.engine.templates.catalogue import Catalogue


class TemplateListing:
    """Lists templates and their builds, and publishes templates."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue

    def alias(self, text: str) -> AliasAnswer:
        """The template behind a name (T7); raises ``NotFoundError``, ``InvalidArgumentError``."""
        template = self._find(text)
        return AliasAnswer(template_id=template.template_id, public=template.public)

    def owner_of_changeable(self, text: str) -> str:
        """The owner of a template that the caller may change; raises as ``alias``.

        Raises ``PermissionDeniedError`` for a template of somebody else.
        """
        template = self._find(text)
        check_changeable(template)
        return template.owner

    def _find(self, text: str) -> TemplateRow:
        """The template behind a name, whose tag, if it has one, must exist."""
        reference = parse_reference(text)
        template = self._catalogue.find(reference)
        if reference.tag is not None and reference.tag not in template.tags:
            raise NotFoundError(
                f"tag '{reference.tag}' does not exist for template '{reference.without_tag}'"
            )
        return template

    def own(self) -> list[Template]:
        """Every template made on this engine, newest first (T12)."""
        return [self._shown(template) for template in self._sorted(is_stock=False)]

    def stock(self) -> list[Template]:
        """The stock templates (T14)."""
        return [self._shown(template) for template in self._sorted(is_stock=True)]

    def announced(self, answer: TemplateAnswer) -> Template:
        """A template with the build that was just announced through an older endpoint (T19)."""
        template = self._catalogue.find(parse_reference(answer.template_id))
        build = self._store.builds.get(answer.build_id)
        if build is None:
            raise NotFoundError(f"build '{answer.build_id}' not found")
        return replace(
            self._shown(template),
            build_id=build.build_id,
            cpu_count=build.cpu_count,
            memory_mb=build.memory_mb,
            disk_size_mb=build.disk_size_mb,
        )

    def page(self, limit: int, token: str | None) -> tuple[list[Template], str | None]:
        """One page of ``own`` and the cursor of the next (T13)."""
        found = self._sorted(is_stock=False)
        page, following = pages.cut(found, _place_of_template, limit=limit, token=token)
        return [self._shown(template) for template in page], following

    def get(
        self, text: str, limit: int, token: str | None
    ) -> tuple[TemplateWithBuilds, str | None]:
        """A template with one page of its builds, newest first (T15)."""
        template = self._catalogue.find(parse_reference(text))
        builds = self._builds(template)
        page, following = pages.cut(builds, _place_of_build, limit=limit, token=token)
        fields = {name: getattr(self._shown(template), name) for name in Template.__struct_fields__}
        shown = TemplateWithBuilds(**fields, builds=[_shown_build(build) for build in page])
        return shown, following

    async def publish(self, text: str, public: bool | None) -> TemplateNames:
        """Make a template public or private (T17); there is one team, so nothing else changes."""
        async with self._catalogue.changing:
            template = self._catalogue.find(parse_reference(text))
            if template.is_stock:
                raise PermissionDeniedError(f"you don't have access to template '{text}'")
            check_changeable(template)
            if public is not None and public != template.public:
                template = replace(template, public=public, updated_at=now())
                await self._store.commit(Batch().put(template))
        return TemplateNames(names=[full_name(alias) for alias in template.aliases])

    def _sorted(self, *, is_stock: bool) -> list[TemplateRow]:
        found = (
            template
            for template in self._store.templates
            if template.is_stock == is_stock
            and not template.is_snapshot
            and may_start_from(template)
        )
        return pages.sort(found, _place_of_template)

    def _builds(self, template: TemplateRow) -> list[BuildRow]:
        found = (build for build in self._store.builds if build.template_id == template.template_id)
        return pages.sort(found, _place_of_build)

    def _shown(self, template: TemplateRow) -> Template:
        builds = self._builds(template)
        assignment = template.tags.get(DEFAULT_TAG)
        chosen = None if assignment is None else self._store.builds.get(assignment.build_id)
        newest = builds[0]
        build = chosen or newest
        return Template(
            template_id=template.template_id,
            build_id=build.build_id,
            cpu_count=build.cpu_count,
            memory_mb=build.memory_mb,
            disk_size_mb=build.disk_size_mb,
            public=template.public,
            aliases=list(template.aliases),
            names=[full_name(alias) for alias in template.aliases],
            created_at=template.created_at,
            updated_at=template.updated_at,
            last_spawned_at=template.last_spawned_at,
            spawn_count=template.spawn_count,
            build_count=len(builds),
            envd_version=RUNTIME_VERSION,
            build_status=newest.status,
            is_default=template.is_stock,
        )


def _shown_build(build: BuildRow) -> TemplateBuild:
    return TemplateBuild(
        build_id=build.build_id,
        status=build.status,
        created_at=build.created_at,
        updated_at=build.updated_at,
        cpu_count=build.cpu_count,
        memory_mb=build.memory_mb,
        finished_at=build.finished_at,
        disk_size_mb=build.disk_size_mb,
        envd_version=RUNTIME_VERSION if build.status == "ready" else None,
    )


def _place_of_template(template: TemplateRow) -> tuple[dt.datetime, str]:
    return template.created_at, template.template_id


def _place_of_build(build: BuildRow) -> tuple[dt.datetime, str]:
    return build.created_at, build.build_id
