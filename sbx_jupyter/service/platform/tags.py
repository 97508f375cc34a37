"""Routes for tags of templates (interface 1.5, T8 to T11)."""

from __future__ import annotations

from typing import Final

from sbx_jupyter.engine.templates.tags import SORTS
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.templates import (
    AssignedTags,
    AssignmentPage,
    AssignTags,
    RemoveTags,
    TagCount,
    TagExists,
    TagGroups,
    TemplateTag,
)
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler

_ERRORS: Final = (*COMMON_ERRORS, 403)
_MAX_PAGE: Final = 100


def _size(name: str, default: int) -> Parameter:
    schema = {"type": "integer", "minimum": 1, "maximum": _MAX_PAGE, "default": default}
    return Parameter(name, schema)


class TagsHandler(PlatformHandler):
    """``/templates/tags``."""

    @operation(
        "Put tags on a build (T8)", body=AssignTags, answers={201: AssignedTags}, errors=_ERRORS
    )
    async def post(self) -> None:
        request = self.read_body(AssignTags)
        tags = self.service.engine.templates.tags
        self.answer(await tags.assign(request.target, request.tags), 201)

    @operation("Remove tags (T9)", body=RemoveTags, answers={204: None}, errors=_ERRORS)
    async def delete(self) -> None:
        request = self.read_body(RemoveTags)
        await self.service.engine.templates.tags.remove(request.name, request.tags)
        self.answer(status=204)


class TemplateTagsHandler(PlatformHandler):
    """``/templates/{id}/tags``."""

    @operation(
        "List the tags of a template (T10)", answers={200: list[TemplateTag]}, errors=_ERRORS
    )
    async def get(self, reference: str) -> None:
        self.answer(self.service.engine.templates.tags.list(reference))


class TagCountHandler(PlatformHandler):
    """``/templates/{id}/tags/count``."""

    @operation("Count the tags of a template (T11)", answers={200: TagCount}, errors=_ERRORS)
    async def get(self, reference: str) -> None:
        self.answer(TagCount(total=self.service.engine.templates.tags.count(reference)))


class TagExistsHandler(PlatformHandler):
    """``/templates/{id}/tags/exists``."""

    @operation(
        "Say whether a template has a tag (T11)",
        answers={200: TagExists},
        errors=_ERRORS,
        query=(Parameter("tag", {"type": "string"}, required=True),),
    )
    async def get(self, reference: str) -> None:
        tag = self.query_text("tag")
        if not tag:
            raise InvalidArgumentError("validation error: tag is required")
        self.answer(self.service.engine.templates.tags.exists(reference, tag))


class TagGroupsHandler(PlatformHandler):
    """``/templates/{id}/tags/groups``."""

    @operation(
        "List tags with their past assignments (T11)",
        answers={200: TagGroups},
        errors=_ERRORS,
        query=(
            _size("assignmentLimit", 6),
            _size("tagsLimit", 25),
            Parameter("tagsCursor", {"type": "string"}),
            Parameter("search", {"type": "string"}),
            Parameter("sort", {"enum": list(SORTS), "default": SORTS[0]}),
        ),
    )
    async def get(self, reference: str) -> None:
        groups = self.service.engine.templates.tags.groups(
            reference,
            assignments=self.query_int("assignmentLimit", 6, minimum=1, maximum=_MAX_PAGE),
            limit=self.query_int("tagsLimit", 25, minimum=1, maximum=_MAX_PAGE),
            cursor=self.query_text("tagsCursor") or None,
            search=self.query_text("search"),
            sort=self.query_choice("sort", SORTS, SORTS[0]) or SORTS[0],
        )
        self.answer(groups)


class TagAssignmentsHandler(PlatformHandler):
    """``/templates/{id}/tags/{tag}/assignments``."""

    @operation(
        "List the builds that a tag was put on (T11)",
        answers={200: AssignmentPage},
        errors=_ERRORS,
        query=(Parameter("cursor", {"type": "string"}), _size("limit", 50)),
    )
    async def get(self, reference: str, tag: str) -> None:
        page = self.service.engine.templates.tags.assignments(
            reference,
            tag,
            limit=self.query_int("limit", 50, minimum=1, maximum=_MAX_PAGE),
            cursor=self.query_text("cursor") or None,
        )
        self.answer(page)
