"""Routes that describe and rename templates, cancel builds and describe volumes.

They are additions to the platform API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sbx_jupyter.protocol.catalogue import TemplateDetail, TemplateRename, VolumeDetail
from sbx_jupyter.service.platform.operation_spec import Parameter, operation
from sbx_jupyter.service.platform.platform_handler import COMMON_ERRORS, PlatformHandler

if TYPE_CHECKING:
    from sbx_jupyter.protocol.disk import DiskUse

_MAX_AGE = 120.0
"""Seconds for which measured sizes are good enough here."""

_SIZES = Parameter(
    "sizes",
    {"enum": ["true", "false"], "default": "false"},
    "Measure them; that may take long.",
)


async def _measured(handler: PlatformHandler) -> DiskUse | None:
    """The disk use, if the request asks for it."""
    if handler.query_choice("sizes", ("true", "false"), "false") != "true":
        return None
    return await handler.service.engine.storage.disk.report(_MAX_AGE)


class TemplateDetailsHandler(PlatformHandler):
    """``/engine/templates``."""

    @operation(
        "Describe all templates and snapshots with what depends on them",
        answers={200: list[TemplateDetail]},
        errors=COMMON_ERRORS,
        query=(_SIZES,),
    )
    async def get(self) -> None:
        use = await _measured(self)
        sizes = {} if use is None else {each.template_id: each for each in use.templates}
        self.answer(self.service.engine.templates.details.list(sizes))


class TemplateNameHandler(PlatformHandler):
    """``/engine/templates/{id}``, whose slashes are percent-encoded."""

    @operation(
        "Rename a template or snapshot",
        body=TemplateRename,
        answers={200: TemplateDetail},
        errors=(*COMMON_ERRORS, 403, 409),
    )
    async def patch(self, reference: str) -> None:
        name = self.read_body(TemplateRename).name
        self.answer(await self.service.engine.templates.details.rename(reference, name))


class BuildCancelHandler(PlatformHandler):
    """``/engine/templates/{id}/builds/{id}``."""

    @operation("Cancel a build", answers={204: None}, errors=(*COMMON_ERRORS, 403, 409))
    async def delete(self, reference: str, build_id: str) -> None:
        await self.service.engine.templates.builder.cancel(reference, build_id)
        self.answer(status=204)


class VolumeDetailsHandler(PlatformHandler):
    """``/engine/volumes``."""

    @operation(
        "Describe all volumes with where they are mounted",
        answers={200: list[VolumeDetail]},
        errors=COMMON_ERRORS,
        query=(_SIZES,),
    )
    async def get(self) -> None:
        use = await _measured(self)
        sizes = {} if use is None else {each.volume_id: each.own_bytes for each in use.volumes}
        self.answer(self.service.engine.attachments.volumes.details(sizes))
