"""Routes that make snapshots and forks, and show the progress of that."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.errors import NotFoundError, UnavailableError, UnimplementedError
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.protocol.disk import SandboxOperation
from sbx_jupyter.protocol.platform import ListedSandbox, SnapshotInfo
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.deployments import sandbox_calls
from sbx_jupyter.server.description.operations import EMPTY, Answer


class SnapshotBody(msgspec.Struct, kw_only=True, frozen=True):
    name: str | None = None


class ForkBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST sandboxes/{id}/fork``."""

    timeout: int | None = None
    name: str | None = None


class SnapshotHandler(SandboxRoute):
    """Makes a snapshot of a running sandbox's files, from which others can be created."""

    bodies: ClassVar = {"post": SnapshotBody}
    answers: ClassVar = {"post": Answer(SnapshotInfo, 201)}

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
    answers: ClassVar = {"post": Answer(ListedSandbox, 201)}

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
                await sandbox_calls.rename(self.connection, copy_id, body.name)
            except UnimplementedError as e:
                self.log.info("the fork was not named: %s", e.message)
        self.answer(await sandbox_calls.get(self.connection, copy_id), status=201)


class OperationsHandler(SandboxRoute):
    """Lists the long operations on a sandbox; empty if the deployment has no such route."""

    answers: ClassVar = {"get": Answer({"operations": list[SandboxOperation]})}

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

    answers: ClassVar = {"delete": EMPTY}

    @web.authenticated
    @authorized
    async def delete(self, sandbox_id: str, operation_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        await self.connection.call(
            lambda platform: platform.cancel_operation(sandbox_id, operation_id)
        )
        self.answer_empty()
