"""Tags of templates and their earlier assignments (interface 1.5, T8 to T11)."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from sbx_jupyter.engine.state.rows import PastAssignment, TagAssignment, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.engine.templates.catalogue import check_changeable
from sbx_jupyter.engine.templates.references import DEFAULT_TAG, parse_reference, parse_tag
from sbx_jupyter.engine.templates.request_checks import check_tags, own_reference
from sbx_jupyter.errors import InvalidArgumentError, PermissionDeniedError
from sbx_jupyter.protocol.templates import (
    AssignedTags,
    Assignment,
    AssignmentPage,
    TagExists,
    TagGroup,
    TagGroups,
    TemplateTag,
)

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from sbx_jupyter.engine.state.rows import TemplateRow
    from sbx_jupyter.engine.state.store import Store
    from sbx_jupyter.engine.templates.catalogue import Catalogue

T = TypeVar("T")

SORTS: Final = ("latest_desc", "latest_asc", "name_asc", "name_desc")
_MAX_ASSIGNMENTS: Final = 500


def with_tags(template: TemplateRow, tags: Sequence[str], build_id: str) -> TemplateRow:
    """The template with its tags moved to a build."""
    at = now()
    moved = {tag: TagAssignment(build_id=build_id, created_at=at) for tag in tags}
    past = [
        PastAssignment(assignment_id=str(uuid.uuid4()), tag=tag, build_id=build_id, at=at)
        for tag in moved
    ]
    return replace(
        template,
        updated_at=at,
        tags={**template.tags, **moved},
        assignments=(*template.assignments, *past)[-_MAX_ASSIGNMENTS:],
    )


class Tags:
    """Assigns, removes and lists tags."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue

    async def assign(self, target: str, tags: list[str]) -> AssignedTags:
        """Assign tags to the build of a reference (T8).

        Raises ``InvalidArgumentError``, ``NotFoundError``.
        """
        if not tags:
            raise InvalidArgumentError("at least one tag is required")
        own_reference(target)
        wanted = list(dict.fromkeys(check_tags(tags)))
        async with self._catalogue.changing:
            template, build = self._catalogue.resolve(target)
            _check_own(template)
            await self._store.commit(Batch().put(with_tags(template, wanted, build.build_id)))
        return AssignedTags(tags=wanted, build_id=build.build_id)

    async def remove(self, name: str, tags: list[str]) -> None:
        """Remove tags (T9); raises ``InvalidArgumentError``, ``NotFoundError``."""
        if ":" in name:
            raise InvalidArgumentError("name must not contain a tag")
        if not tags:
            raise InvalidArgumentError("at least one tag is required")
        wanted = set(check_tags(tags))
        if DEFAULT_TAG in wanted:
            raise InvalidArgumentError(f"cannot remove the tag '{DEFAULT_TAG}'")
        async with self._catalogue.changing:
            template = self._catalogue.find(parse_reference(name))
            _check_own(template)
            kept = {tag: found for tag, found in template.tags.items() if tag not in wanted}
            await self._store.commit(Batch().put(replace(template, tags=kept, updated_at=now())))

    def list(self, reference: str) -> list[TemplateTag]:
        """All tags of a template (T10); raises ``NotFoundError``."""
        return [
            TemplateTag(tag=tag, build_id=found.build_id, created_at=found.created_at)
            for tag, found in self._find(reference).tags.items()
        ]

    def count(self, reference: str) -> int:
        return len(self._find(reference).tags)

    def exists(self, reference: str, tag: str) -> TagExists:
        """Whether a tag exists (T11); raises ``InvalidArgumentError``."""
        normal = parse_tag(tag)
        return TagExists(exists=normal in self._find(reference).tags, normalized_tag=normal)

    def groups(
        self,
        reference: str,
        *,
        assignments: int,
        limit: int,
        cursor: str | None,
        search: str | None,
        sort: str,
    ) -> TagGroups:
        """One page of tags with their last assignments (T11)."""
        template = self._find(reference)
        found = [
            (tag, held) for tag, held in template.tags.items() if (search or "").lower() in tag
        ]
        by_name = sort.startswith("name")
        found.sort(
            key=lambda item: item[0] if by_name else (item[1].created_at, item[0]),
            reverse=sort.endswith("desc"),
        )
        page, next_cursor = _page(found, limit, cursor)
        groups: list[TagGroup] = []
        for tag, _ in page:
            past = self._past(template, tag)
            groups.append(
                TagGroup(tag=tag, assignments=past[:assignments], has_more=len(past) > assignments)
            )
        return TagGroups(tags=groups, next_cursor=next_cursor)

    def assignments(
        self, reference: str, tag: str, *, limit: int, cursor: str | None
    ) -> AssignmentPage:
        """One page of the assignments of a tag, newest first (T11)."""
        past = self._past(self._find(reference), parse_tag(tag))
        page, next_cursor = _page(past, limit, cursor)
        return AssignmentPage(data=page, next_cursor=next_cursor)

    def _find(self, reference: str) -> TemplateRow:
        return self._catalogue.find(parse_reference(reference))

    def _past(self, template: TemplateRow, tag: str) -> list[Assignment]:
        past = [item for item in template.assignments if item.tag == tag]
        held = template.tags.get(tag)
        if held is not None and (not past or past[-1].build_id != held.build_id):
            # Snapshots assign their tags without recording it.
            name = str(uuid.uuid5(uuid.UUID(held.build_id), f"{tag} {held.created_at}"))
            past.append(
                PastAssignment(
                    assignment_id=name, tag=tag, build_id=held.build_id, at=held.created_at
                )
            )
        return [found for item in reversed(past) if (found := self._shown(item)) is not None]

    def _shown(self, item: PastAssignment) -> Assignment | None:
        build = self._store.builds.get(item.build_id)
        if build is None:
            return None
        finished: dt.datetime | None = build.finished_at
        return Assignment(
            assignment_id=item.assignment_id,
            build_id=item.build_id,
            assigned_at=item.at,
            build_created_at=build.created_at,
            build_finished_at=finished,
        )


def _check_own(template: TemplateRow) -> None:
    if template.is_stock:
        alias = template.aliases[0]
        raise PermissionDeniedError(f"you don't have access to template '{alias}'")
    check_changeable(template)


def _page(items: list[T], limit: int, cursor: str | None) -> tuple[list[T], str | None]:
    """A page by position: such lists rarely change while they are read."""
    start = 0
    if cursor:
        try:
            start = int(base64.urlsafe_b64decode(cursor.encode()).decode("ascii"))
        except (ValueError, binascii.Error) as error:
            raise InvalidArgumentError("Invalid cursor") from error
        if start < 0:
            raise InvalidArgumentError("Invalid cursor")
    end = start + limit
    following: Any = None
    if end < len(items):
        following = base64.urlsafe_b64encode(str(end).encode()).decode()
    return items[start:end], following
