"""Finds the build that a template reference means, and adds the stock templates."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Final

from sbx_jupyter.engine.owners import caller, may_use
from sbx_jupyter.engine.state.rows import BuildRow, TagAssignment, TemplateRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.templates.references import (
    DEFAULT_TAG,
    NAMESPACE,
    Reference,
    parse_reference,
)
from sbx_jupyter.engine.watch.checkpoints import reached
from sbx_jupyter.errors import InvalidArgumentError, NotFoundError, PermissionDeniedError

if TYPE_CHECKING:
    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.engine.storage.layers import Layers
    from sbx_jupyter.engine.tasks import BackgroundTasks
    from sbx_jupyter.isolation.fence_spec import Limits

INTERPRETER_TEMPLATE_ID: Final = "codeinterpreter00001"
_STOCK_IDS: Final = {
    "base": "base0000000000000000",
    "code-interpreter-v1": INTERPRETER_TEMPLATE_ID,
}
_STOCK_SPACE: Final = uuid.UUID("7e2f1b0a-50d4-4c35-9d7c-3d8d3f0c2f11")


class Catalogue:
    """Finds templates and builds in the store."""

    def __init__(self, store: Store, layers: Layers, cleaning: BackgroundTasks) -> None:
        """``cleaning`` removes files that nothing refers to any more."""
        self._store = store
        self._layers = layers
        self._cleaning = cleaning
        self.changing = asyncio.Lock()
        """Held from reading a template's row until its new state is committed: in between, others
        would find no template of that name, or write over its tags."""

    def find(self, reference: Reference) -> TemplateRow:
        """The template of a reference, whatever its tag; raises ``NotFoundError``.

        Of several with that name it is the caller's own, else one that the caller may start from.
        """
        if reference.namespace in (None, NAMESPACE):
            named = [
                template
                for template in self._store.templates
                if reference.name in template.aliases and may_start_from(template)
            ]
            if named:
                return min(named, key=lambda template: template.owner != caller().owner)
            template = self._store.templates.get(reference.name)
            if template is not None and reference.namespace is None and may_start_from(template):
                return template
        raise NotFoundError(f"template '{reference}' not found")

    def find_own(self, reference: Reference) -> TemplateRow | None:
        """The template that a new build with this name would change; ``None`` if there is none.

        A stock template is found too, so that the caller can refuse its name.
        """
        try:
            found = self.find(reference)
        except NotFoundError:
            return None
        return found if found.is_stock or found.owner == caller().owner else None

    def resolve(self, text: str) -> tuple[TemplateRow, BuildRow]:
        """The template and ready build of a reference.

        Raises ``InvalidArgumentError`` for a malformed reference, ``NotFoundError`` for an unknown
        template or tag.
        """
        reference = parse_reference(text)
        template = self.find(reference)
        assignment = template.tags.get(reference.tag or DEFAULT_TAG)
        build = None if assignment is None else self._store.builds.get(assignment.build_id)
        if build is None or build.status != "ready":
            raise NotFoundError(
                f"tag '{reference.tag or DEFAULT_TAG}' does not exist for template "
                f"'{reference.without_tag}'"
            )
        return template, build

    def find_for_filter(self, text: str) -> TemplateRow | None:
        """The template that a list is filtered by; ``None`` when unknown.

        Raises ``InvalidArgumentError`` for a malformed reference or one with a tag.
        """
        reference = parse_reference(text)
        if ":" in text:
            raise InvalidArgumentError("Invalid template reference: a filter takes no tag")
        try:
            return self.find(reference)
        except NotFoundError:
            return None

    async def remove(self, text: str) -> None:
        """Remove a template or snapshot with all its builds, whatever the tag (T16).

        Their files go in the background: a disk may take seconds to free the blocks of one layer.
        Raises ``NotFoundError``, ``InvalidArgumentError`` while sandboxes are based on it or when
        it is a stock template.
        """
        reference = parse_reference(text)
        layers: set[str] = set()
        async with self.changing:
            template = self.find(reference)
            self.check_removable(reference, template)
            batch = Batch().remove(TemplateRow, template.template_id)
            for build in self._store.builds:
                if build.template_id == template.template_id:
                    batch.remove(BuildRow, build.build_id)
                    layers.update(build.layers)
            await self._store.commit(batch)
        reached("template.forgotten")
        self._cleaning.spawn(self._layers.collect(tuple(layers)), "sbx-collect")

    def check_removable(self, reference: Reference, template: TemplateRow) -> None:
        """Raise ``InvalidArgumentError`` for a template that must stay."""
        if template.is_stock:
            raise InvalidArgumentError(f"'{reference.name}' is a stock template")
        check_changeable(template)
        if any(row.template_id == template.template_id for row in self._store.sandboxes):
            raise InvalidArgumentError(
                f"template '{reference.without_tag}' is in use by running or paused sandboxes"
            )

    def add_stock(self, batch: Batch, limits: Limits) -> None:
        """Add the stock templates that are missing, and set their configured limits."""
        for alias, template_id in _STOCK_IDS.items():
            build_id = str(uuid.uuid5(_STOCK_SPACE, alias))
            at = now()
            before = self._store.builds.get(build_id)
            build = BuildRow(
                build_id=build_id,
                template_id=template_id,
                status="ready",
                created_at=at if before is None else before.created_at,
                updated_at=at,
                finished_at=at if before is None else before.finished_at,
                cpu_count=limits.cpu_count,
                memory_mb=limits.memory_mb,
                disk_size_mb=limits.disk_mb,
            )
            batch.put(build)
            if template_id not in self._store.templates:
                batch.put(
                    TemplateRow(
                        template_id=template_id,
                        aliases=(alias,),
                        public=True,
                        created_at=at,
                        updated_at=at,
                        is_stock=True,
                        tags={DEFAULT_TAG: TagAssignment(build_id=build_id, created_at=at)},
                    )
                )


def may_start_from(template: TemplateRow) -> bool:
    """Whether the caller may start sandboxes and builds from a template."""
    return template.public or template.is_stock or may_use(template.owner)


def check_changeable(template: TemplateRow) -> None:
    """Raise ``PermissionDeniedError`` if the caller may not change a template."""
    if not may_use(template.owner):
        name = template.aliases[0] if template.aliases else template.template_id
        raise PermissionDeniedError(f"you don't have access to template '{name}'")
