"""Routes for templates, snapshots and forks, and for the progress of making them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.errors import NotFoundError, UnavailableError, UnimplementedError
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.server.answers import SandboxRoute

if TYPE_CHECKING:
    from sbx_jupyter.client.api.platform import PlatformClient

MAX_SNAPSHOTS: Final = 200
"""The list has the newest snapshots only; the others can still be used by name."""


class SnapshotBody(msgspec.Struct, kw_only=True, frozen=True):
    name: str | None = None


class ForkBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST sandboxes/{id}/fork``."""

    timeout: int | None = None
    name: str | None = None


class SnapshotHandler(SandboxRoute):
    """Makes a snapshot of a running sandbox's files, from which others can be created."""

    bodies: ClassVar = {"post": SnapshotBody}

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        body = self.decode_body(SnapshotBody)
        self.connection.require("snapshots")
        made = await self.connection.call(
            lambda platform: platform.snapshot(sandbox_id, body.name or None)
        )
        self.answer(made, status=201)


class ForkHandler(SandboxRoute):
    """Starts a sandbox with a copy of a running one's files; names it if the deployment can."""

    bodies: ClassVar = {"post": ForkBody}

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        body = self.decode_body(ForkBody)
        self.connection.require("fork")
        timeout = self.connection.defaults.timeout if body.timeout is None else body.timeout
        made = await self.connection.call(
            lambda platform: platform.fork(sandbox_id, timeout=timeout)
        )
        if not made or made[0].sandbox is None:
            error = made[0].error if made else None
            raise UnavailableError(error.message if error else "the deployment made no fork")
        copy_id = made[0].sandbox.sandbox_id
        if body.name:
            try:
                await self.connection.rename_sandbox(copy_id, body.name)
            except UnimplementedError as e:
                self.log.info("the fork was not named: %s", e.message)
        self.answer(await self.connection.get_sandbox(copy_id), status=201)


class OperationsHandler(SandboxRoute):
    """Lists the long operations on a sandbox; empty if the deployment has no such route."""

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        try:
            found = await self.connection.call(lambda platform: platform.operations(sandbox_id))
        except (NotFoundError, UnimplementedError):
            found = []
        self.answer({"operations": found})


class OperationHandler(SandboxRoute):
    """``DELETE operations/{id}``: cancels it; the request that waits for it gets an error."""

    @web.authenticated
    @authorized
    async def delete(self, sandbox_id: str, operation_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        await self.connection.call(
            lambda platform: platform.cancel_operation(sandbox_id, operation_id)
        )
        self.answer_empty()


class TemplatesHandler(SandboxRoute):
    """``GET templates``: lists the templates and snapshots, snapshots last."""

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        platform = await self.connection.platform()
        listed = [*await platform.default_templates(), *await platform.templates()]
        templates = {item["templateID"]: item for item in map(_template_view, listed)}
        snapshots = await _list_snapshots(platform)
        known = {snapshot["templateID"].partition(":")[0] for snapshot in snapshots}
        shown = [item for template_id, item in templates.items() if template_id not in known]
        self.answer({"templates": [*shown, *snapshots]})


class TemplateHandler(SandboxRoute):
    """``DELETE templates/{id}``: removes a template or snapshot with all its builds."""

    @web.authenticated
    @authorized
    async def delete(self, template_id: str) -> None:
        if not await self.connection.call(lambda platform: platform.remove_snapshot(template_id)):
            raise NotFoundError(f"there is no template or snapshot {template_id}")
        self.answer_empty()


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
