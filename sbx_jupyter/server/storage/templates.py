"""Routes for templates and snapshots: list, build, follow, rename and remove."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypedDict

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.client.templates.build_context import BuildContext
from sbx_jupyter.errors import (
    NotFoundError,
    UnimplementedError,
)
from sbx_jupyter.protocol.catalogue import TemplateDetail
from sbx_jupyter.protocol.dockerfile.steps import parse_dockerfile
from sbx_jupyter.protocol.templates import (
    BuildStart,
    BuildStatus,
    TemplateRequest,
    TemplateWithBuilds,
)
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import (
    EMPTY,
    Answer,
    Flag,
    Parameter,
    sparse,
)
from sbx_jupyter.server.storage.builds import client_of

if TYPE_CHECKING:
    from sbx_jupyter.client.api.platform import PlatformClient
    from sbx_jupyter.server.deployments.connection import Connection

MAX_SNAPSHOTS: Final = 200
"""The list has the newest snapshots only; the others can still be used by name."""

StoredTemplate = sparse(
    TemplateDetail,
    "StoredTemplate",
    keep=("template_id", "names"),
    kind=Literal["template", "snapshot"],
    build_status=BuildStatus | msgspec.UnsetType | None,
    isStock=bool | msgspec.UnsetType,
)

_SIZES: Final = Parameter("sizes", "Whether to measure their disk use.", Flag)


class BegunBuild(TypedDict):
    """A build that has begun; ``leftOut`` names instructions that have no effect here."""

    templateID: str
    buildID: str
    names: list[str]
    leftOut: list[str]


class BuildBody(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """The body of ``POST templates``; ``template`` replaces the image of FROM."""

    name: str
    dockerfile: str
    template: str | None = None
    build_args: dict[str, str] = {}
    cpu_count: int | None = None
    memory_mb: int | None = msgspec.field(name="memoryMB", default=None)
    ready_cmd: str | None = None
    force: bool = False


class TemplateNameBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``PATCH templates/{id}``; an empty name removes the name."""

    name: str


class TemplatesHandler(SandboxRoute):
    """Lists the templates and snapshots, snapshots last; with ``sizes=true`` measures them.

    ``POST`` begins to build one from the text of a Dockerfile, whose COPY steps can only copy what
    is in that text, and answers ``{"templateID", "buildID", "names", "leftOut"}`` at once.
    """

    bodies: ClassVar = {"post": BuildBody}
    queries: ClassVar = {"get": (_SIZES,)}
    answers: ClassVar = {
        "get": Answer({"templates": list[StoredTemplate]}),
        "post": Answer(BegunBuild, 202),
    }

    @property
    def _track_activity(self) -> bool:
        """Whether the user did something: a page may list by itself."""
        return self.request.method != "GET"

    @web.authenticated
    @authorized
    async def get(self) -> None:
        platform = await self.connection.platform()
        listed = [*await platform.default_templates(), *await platform.templates()]
        templates = {item["templateID"]: item for item in map(_template_view, listed)}
        snapshots = await _list_snapshots(platform)
        known = {snapshot["templateID"].partition(":")[0] for snapshot in snapshots}
        shown = [item for template_id, item in templates.items() if template_id not in known]
        details = await _details(self.connection, sizes=_wants_sizes(self))
        self.answer({"templates": [_with(details, item) for item in [*shown, *snapshots]]})

    @web.authenticated
    @authorized
    async def post(self) -> None:
        body = self.decode_body(BuildBody)
        request = TemplateRequest(
            name=body.name, cpu_count=body.cpu_count, memory_mb=body.memory_mb
        )
        client = await client_of(self.connection)
        with tempfile.TemporaryDirectory(prefix="sbx-no-context-") as empty:
            found = parse_dockerfile(body.dockerfile, body.build_args, BuildContext(Path(empty)))
            start = BuildStart(
                from_image=None if body.template else found.image,
                from_template=body.template,
                force=body.force,
                steps=found.steps,
                start_cmd=found.start_command,
                ready_cmd=body.ready_cmd or found.ready_command,
            )
            context = BuildContext(Path(empty), inline=found.inline)
            begun = await client.begin(request, start, context)
        answer: BegunBuild = {
            "templateID": begun.template_id,
            "buildID": begun.build_id,
            "names": begun.names,
            "leftOut": [str(each) for each in found.left_out],
        }
        self.answer(answer, status=202)


class SnapshotsHandler(SandboxRoute):
    """Lists the snapshots, newest first, as ``templates`` does."""

    queries: ClassVar = {"get": (_SIZES,)}
    answers: ClassVar = {"get": Answer({"snapshots": list[StoredTemplate]})}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        snapshots = await _list_snapshots(await self.connection.platform())
        details = await _details(self.connection, sizes=_wants_sizes(self))
        self.answer({"snapshots": [_with(details, item) for item in snapshots]})


class TemplateHandler(SandboxRoute):
    """Describes a template or snapshot with its builds, newest first; renames or removes it.

    ``DELETE`` with ``dependants=true`` first ends the sandboxes that were made from it; without it,
    such a template is refused.
    """

    bodies: ClassVar = {"patch": TemplateNameBody}
    queries: ClassVar = {
        "delete": (Parameter("dependants", "Whether to end its sandboxes before.", Flag),)
    }
    answers: ClassVar = {
        "get": Answer(TemplateWithBuilds),
        "patch": Answer(TemplateDetail),
        "delete": EMPTY,
    }

    @property
    def _track_activity(self) -> bool:
        """Whether the user did something: a page may look by itself."""
        return self.request.method != "GET"

    @web.authenticated
    @authorized
    async def get(self, template_id: str) -> None:
        self.answer(await self.connection.call(lambda platform: platform.template(template_id)))

    @web.authenticated
    @authorized
    async def patch(self, template_id: str) -> None:
        self.connection.require("catalogue")
        name = self.decode_body(TemplateNameBody).name.strip()
        self.answer(
            await self.connection.call(
                lambda platform: platform.rename_template(template_id.partition(":")[0], name)
            )
        )

    @web.authenticated
    @authorized
    async def delete(self, template_id: str) -> None:
        if self.get_query_argument("dependants", "") == "true":
            await self._end_dependants(template_id.partition(":")[0])
        if not await self.connection.call(lambda platform: platform.remove_snapshot(template_id)):
            raise NotFoundError(f"there is no template or snapshot {template_id}")
        self.answer_empty()

    async def _end_dependants(self, name: str) -> None:
        """End the sandboxes of a template, unless its removal will be refused."""
        self.connection.require("catalogue")
        platform = await self.connection.platform()
        for found in await platform.template_details():
            names = (
                found.template_id,
                *found.names,
                *(each.rpartition("/")[2] for each in found.names),
            )
            if not found.is_own or name not in names:
                continue
            for sandbox_id in found.sandboxes:
                self.connection.forget_tokens(sandbox_id)
                await platform.kill(sandbox_id)


def _wants_sizes(handler: SandboxRoute) -> bool:
    return handler.get_query_argument("sizes", "") == "true"


async def _details(connection: Connection, *, sizes: bool) -> dict[str, TemplateDetail]:
    """The engine's details of each template, by id and names; empty for other deployments."""
    try:
        connection.require("catalogue")
        found = await connection.call(lambda platform: platform.template_details(sizes=sizes))
    except (NotFoundError, UnimplementedError):
        return {}
    return {key: each for each in found for key in (*each.names, each.template_id)}


def _with(details: dict[str, TemplateDetail], item: dict[str, Any]) -> dict[str, Any]:
    found = details.get(item["templateID"].partition(":")[0])
    if found is None:
        return item
    return {**msgspec.to_builtins(found), "isStock": found.kind == "stock", **item}


async def _list_snapshots(platform: PlatformClient) -> list[dict[str, Any]]:
    """List the newest snapshots; empty if the deployment has no such route."""
    snapshots: list[dict[str, Any]] = []
    try:
        async for snapshot in platform.snapshots():
            snapshots.append(
                {"templateID": snapshot.snapshot_id, "names": snapshot.names, "kind": "snapshot"}
            )
            if len(snapshots) >= MAX_SNAPSHOTS:
                break
    except (NotFoundError, UnimplementedError):
        return []
    return snapshots


def _template_view(item: dict[str, Any]) -> dict[str, Any]:
    names: list[str] = item.get("names") or item.get("aliases") or []
    return {
        "templateID": item.get("templateID", ""),
        "names": names,
        "kind": "template",
        "buildStatus": item.get("buildStatus"),
    }
