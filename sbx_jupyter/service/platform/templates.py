"""Routes that find, announce, publish and remove templates (interface 1.5, T7 and T12 to T19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.engine.templates.references import NAMESPACE
from sbx_jupyter.engine.templates.request_checks import plan_dockerfile
from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.templates import (
    AliasAnswer,
    DockerfileRequest,
    Template,
    TemplateNames,
    TemplateRequest,
    TemplateUpdate,
    TemplateWithBuilds,
)
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import (
    COMMON_ERRORS,
    LIMIT,
    NEXT_TOKEN,
    PlatformHandler,
)

if TYPE_CHECKING:
    from sbx_jupyter.engine.templates.template_services import Templates

_TEAM = Parameter("teamID", {"type": "string"}, "The only team of this engine, or nothing.")
_ANNOUNCEMENT_ERRORS = (*COMMON_ERRORS, 403, 409)


async def _announce(
    templates: Templates, request: DockerfileRequest, template_id: str | None
) -> Template:
    answer = await templates.builder.request(
        request.to_request(), template_id=template_id, start=plan_dockerfile(request)
    )
    return templates.listing.announced(answer)


class AliasHandler(PlatformHandler):
    """``/templates/aliases/{alias}``, whose slashes are percent-encoded."""

    @operation(
        "Look up a name of a template (T7)",
        answers={200: AliasAnswer},
        errors=(*COMMON_ERRORS, 403),
    )
    async def get(self, alias: str) -> None:
        self.answer(self.service.engine.templates.listing.alias(alias))


class TemplatesHandler(PlatformHandler):
    """``/templates``."""

    @operation(
        "List templates (T12)",
        answers={200: list[Template]},
        errors=COMMON_ERRORS,
        query=(_TEAM,),
    )
    async def get(self) -> None:
        _check_team(self)
        self.answer(self.service.engine.templates.listing.own())

    @operation(
        "Announce a build of a Dockerfile (T19)",
        body=DockerfileRequest,
        answers={202: Template},
        errors=_ANNOUNCEMENT_ERRORS,
    )
    async def post(self) -> None:
        request = self.read_body(DockerfileRequest)
        self.answer(await _announce(self.service.engine.templates, request, None), 202)


class TemplatesV2Handler(PlatformHandler):
    """``/v2/templates``."""

    @operation(
        "List templates in pages (T13)",
        answers={200: list[Template]},
        errors=COMMON_ERRORS,
        query=(_TEAM, LIMIT, NEXT_TOKEN),
    )
    async def get(self) -> None:
        _check_team(self)
        limit = self.query_int("limit", 100, minimum=1, maximum=100)
        page, token = self.service.engine.templates.listing.page(
            limit, self.query_text("nextToken") or None
        )
        self.answer_page(page, token)

    @operation(
        "Announce a build (T19)",
        body=TemplateRequest,
        answers={202: Template},
        errors=_ANNOUNCEMENT_ERRORS,
    )
    async def post(self) -> None:
        templates = self.service.engine.templates
        answer = await templates.builder.request(self.read_body(TemplateRequest))
        self.answer(templates.listing.announced(answer), 202)


class DefaultTemplatesHandler(PlatformHandler):
    """``/default-templates``."""

    @operation(
        "List the stock templates (T14)", answers={200: list[Template]}, errors=COMMON_ERRORS
    )
    async def get(self) -> None:
        self.answer(self.service.engine.templates.listing.stock())


class TemplateHandler(PlatformHandler):
    """``/templates/{id}``, whose slashes are percent-encoded."""

    @operation(
        "Describe a template and its builds (T15)",
        answers={200: TemplateWithBuilds},
        errors=(*COMMON_ERRORS, 403),
        query=(LIMIT, NEXT_TOKEN),
    )
    async def get(self, reference: str) -> None:
        limit = self.query_int("limit", 100, minimum=1, maximum=100)
        found, token = self.service.engine.templates.listing.get(
            reference, limit, self.query_text("nextToken") or None
        )
        self.answer_page(found, token)

    @operation(
        "Announce a build of a Dockerfile for a template (T19)",
        body=DockerfileRequest,
        answers={202: Template},
        errors=_ANNOUNCEMENT_ERRORS,
    )
    async def post(self, reference: str) -> None:
        request = self.read_body(DockerfileRequest)
        self.answer(await _announce(self.service.engine.templates, request, reference), 202)

    @operation(
        "Remove a template or snapshot (T16)", answers={204: None}, errors=(*COMMON_ERRORS, 409)
    )
    async def delete(self, reference: str) -> None:
        await self.service.engine.templates.builder.remove(reference)
        self.answer(status=204)

    @operation(
        "Publish a template or take it back (T18)",
        body=TemplateUpdate,
        answers={200: TemplateNames},
        errors=(*COMMON_ERRORS, 403, 409),
    )
    async def patch(self, reference: str) -> None:
        await _publish(self, reference)


class TemplateV2Handler(PlatformHandler):
    """``/v2/templates/{id}``."""

    @operation(
        "Publish a template or take it back (T17)",
        body=TemplateUpdate,
        answers={200: TemplateNames},
        errors=(*COMMON_ERRORS, 403, 409),
    )
    async def patch(self, reference: str) -> None:
        await _publish(self, reference)


def _check_team(handler: PlatformHandler) -> None:
    """Raise ``InvalidArgumentError`` when the templates of another team are asked for."""
    team = handler.query_text("teamID")
    if team and team != NAMESPACE:
        raise InvalidArgumentError(f"teamID '{team[:100]}' is not your team '{NAMESPACE}'")


async def _publish(handler: PlatformHandler, reference: str) -> None:
    """Answer both versions of the request to publish a template."""
    update = handler.read_body(TemplateUpdate)
    handler.answer(await handler.service.engine.templates.listing.publish(reference, update.public))
