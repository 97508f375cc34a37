"""Routes for templates and snapshots: list, build, follow, rename and remove."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from sbx_jupyter.client.templates.build_context import BuildContext
from sbx_jupyter.client.templates.templates import TemplateClient
from sbx_jupyter.errors import (
    NotFoundError,
    SbxError,
    UnimplementedError,
)
from sbx_jupyter.protocol import connect
from sbx_jupyter.protocol.dockerfile.steps import parse_dockerfile
from sbx_jupyter.protocol.templates import BuildStart, TemplateRequest
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.streams import ALIVE, HEARTBEAT, EventStream, event

if TYPE_CHECKING:
    from sbx_jupyter.client.api.platform import PlatformClient
    from sbx_jupyter.protocol.catalogue import TemplateDetail
    from sbx_jupyter.protocol.templates import BuildInfo
    from sbx_jupyter.server.deployments.connection import Connection

MAX_SNAPSHOTS: Final = 200
"""The list has the newest snapshots only; the others can still be used by name."""

LONGEST_WAIT: Final = 30
"""Seconds that a request for more of a log may wait for it."""

_LOOK_EVERY: Final = 0.3
_ENDED: Final = ("ready", "error")


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
        client = await _client(self.connection)
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
        answer = {
            "templateID": begun.template_id,
            "buildID": begun.build_id,
            "names": begun.names,
            "leftOut": [str(each) for each in found.left_out],
        }
        self.answer(answer, status=202)


class SnapshotsHandler(SandboxRoute):
    """Lists the snapshots, newest first, as ``templates`` does."""

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


class BuildHandler(SandboxRoute):
    """The status of a build and its log from ``offset`` on; ``DELETE`` cancels it.

    Answers ``{"status", "logs", "next", "reason"}``; ``next`` is the offset of the next request,
    ``reason`` why the build failed. With ``wait`` (seconds, at most 30) the answer waits for more.
    """

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, template_id: str, build_id: str) -> None:
        offset = self.query_number("offset", 0, 1 << 40)
        end = asyncio.get_running_loop().time() + self.query_number("wait", 0, LONGEST_WAIT)
        client = await _client(self.connection)
        while True:
            info = await client.build_status(template_id, build_id, offset)
            is_over = info.status in _ENDED or asyncio.get_running_loop().time() >= end
            if info.log_entries or is_over:
                break
            await asyncio.sleep(_LOOK_EVERY)
        self.answer(
            {
                "status": info.status,
                "logs": info.log_entries,
                "next": offset + len(info.log_entries),
                "reason": _reason(info),
            }
        )

    @web.authenticated
    @authorized
    async def delete(self, template_id: str, build_id: str) -> None:
        self.connection.require("catalogue")
        client = await _client(self.connection)
        if not await client.cancel_build(template_id, build_id):
            raise NotFoundError(f"there is no build {build_id} of {template_id}")
        self.answer_empty()


class BuildLogHandler(EventStream):
    """Follows the log of a build by server-sent events.

    The event ``log`` for each entry, whose id is how many there were; at the end ``end`` with
    ``{"status", "reason"}``, or ``problem`` when the log cannot be read any more.
    """

    @web.authenticated
    @authorized
    async def get(self, template_id: str, build_id: str) -> None:
        last = self.last_event
        offset = int(last) if last.isascii() and last.isdigit() and len(last) < 12 else 0
        client = await _client(self.connection)
        info = await client.build_status(template_id, build_id, offset)  # before the headers
        try:
            await self.begin()
            quiet = 0.0
            while not self.is_gone:
                for entry in info.log_entries:
                    offset += 1
                    await self.send(event("log", entry, str(offset)))
                if info.status in _ENDED and not info.log_entries:
                    record = {"status": info.status, "reason": _reason(info)}
                    await self.send(event("end", record, str(offset)))
                    return
                quiet = 0.0 if info.log_entries else quiet + _LOOK_EVERY
                if quiet >= HEARTBEAT:
                    await self.send(ALIVE)
                    quiet = 0.0
                if not info.log_entries:
                    await asyncio.sleep(_LOOK_EVERY)
                info = await client.build_status(template_id, build_id, offset)
        except SbxError as error:
            await self.send(event("problem", connect.error_to_json(error), str(offset)))
        except StreamClosedError:
            return


async def _client(connection: Connection) -> TemplateClient:
    transport = await connection.transport()
    return TemplateClient(transport.config, transport)


def _reason(info: BuildInfo) -> dict[str, Any] | None:
    if isinstance(info.reason, msgspec.UnsetType):
        return None
    return {"message": info.reason.message, "step": info.reason.step}


def _wants_sizes(handler: SandboxRoute) -> bool:
    return handler.get_query_argument("sizes", "") == "true"


async def _details(connection: Connection, *, sizes: bool) -> dict[str, TemplateDetail]:
    """What the engine says of each template, by id and names; empty for other deployments."""
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
