"""Routes for the engine and its sandboxes: info, list, create, change, end."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.platform import ListedSandbox, OnTimeout, SandboxMetric, VolumeMount
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.deployments import sandbox_calls
from sbx_jupyter.server.deployments.connection_state import ConnectionInfo, EngineInfo
from sbx_jupyter.server.deployments.connections import ConnectionList
from sbx_jupyter.server.description.operations import EMPTY, Answer, Parameter
from sbx_jupyter.server.kernels.kernel_routes import KernelPlace, kernel_places, within
from sbx_jupyter.server.ports.access import PortMode  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from sbx_jupyter.server.deployments.connection import Connection
    from sbx_jupyter.server.deployments.connections import Connections
    from sbx_jupyter.server.ports.access import PortAccess


class CreateBody(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """The body of ``POST sandboxes``.

    ``internet`` false keeps it off the internet; ``onTimeout`` is what happens at its end;
    ``volumes`` mounts volumes, each ``{"name", "path"}``.
    """

    template: str | None = None
    timeout: int | None = None
    metadata: dict[str, str] = {}
    envs: dict[str, str] = {}
    name: str | None = None
    internet: bool | None = None
    on_timeout: OnTimeout = "kill"
    volumes: list[VolumeMount] = []


class NameBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``PATCH sandboxes/{id}``; an empty name removes the name."""

    name: str


class DefaultBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``PATCH connections``."""

    default: str


class TimeoutBody(msgspec.Struct, kw_only=True, frozen=True):
    timeout: int


class ConnectBody(msgspec.Struct, kw_only=True, frozen=True):
    timeout: int | None = None


class ServerInfo(EngineInfo):
    """The extension, the connection in use with its engine, and the names of all connections."""

    version: str
    connection: ConnectionInfo
    connections: list[str]
    ports: PortMode


def describe_server(
    ports: PortAccess, connections: Connections, connection: Connection
) -> ServerInfo:
    """The extension, one of its connections and the engine of that; waits for nothing."""
    from sbx_jupyter import __version__

    return {
        "version": __version__,
        **connection.describe_engine(),
        "connection": connection.describe(),
        "connections": connections.names(),
        "ports": ports.describe(),
    }


class InfoHandler(SandboxRoute):
    """Describes the extension and the state of its engine; never waits for the engine."""

    answers: ClassVar = {"get": Answer(ServerInfo)}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        ports = self.settings["sbx_jupyter"].ports
        self.answer(describe_server(ports, self.connections, self.connection))


class ConnectionsHandler(SandboxRoute):
    """``GET connections``: every connection with its state; asks each remote one in the background.

    ``PATCH`` with ``{"default": name}`` makes another one the default, until the server ends.
    """

    bodies: ClassVar = {"patch": DefaultBody}
    answers: ClassVar = {"get": Answer(ConnectionList), "patch": Answer(ConnectionList)}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.answer(self.connections.describe())

    @web.authenticated
    @authorized
    async def patch(self) -> None:
        self.connections.use(self.decode_body(DefaultBody).default)
        self.answer(self.connections.describe())


class SandboxesHandler(SandboxRoute):
    """Lists the sandboxes, and in ``kernels`` which kernel of this server runs in which.

    ``POST`` creates one.
    """

    bodies: ClassVar = {"post": CreateBody}
    answers: ClassVar = {
        "get": Answer({"sandboxes": list[ListedSandbox], "kernels": list[KernelPlace]}),
        "post": Answer(ListedSandbox, 201),
    }

    @web.authenticated
    @authorized
    async def get(self) -> None:
        # A page that nobody touches lists them again and again.
        self._track_activity = False
        sandboxes = await self.connection.list_sandboxes()
        if self.connection.changes is not None:
            self.connection.changes.note_listed({each.sandbox_id for each in sandboxes})
        kernels = await kernel_places(self.kernel_manager)
        if self.settings["sbx_jupyter"].users is not None:
            kernels = within(kernels, sandboxes)
        self.answer({"sandboxes": sandboxes, "kernels": kernels})

    @web.authenticated
    @authorized
    async def post(self) -> None:
        body = self.decode_body(CreateBody)
        created = await sandbox_calls.create(
            self.connection,
            template=body.template,
            timeout=body.timeout,
            metadata=body.metadata | ({"name": body.name} if body.name else {}),
            envs=body.envs,
            internet=body.internet,
            pauses=body.on_timeout == "pause",
            volumes=body.volumes,
        )
        self.answer(created, status=201)


class SandboxHandler(SandboxRoute):
    """Describes, renames or ends a sandbox."""

    bodies: ClassVar = {"patch": NameBody}
    answers: ClassVar = {
        "get": Answer(ListedSandbox),
        "patch": Answer(ListedSandbox),
        "delete": EMPTY,
    }

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        self.answer(await sandbox_calls.get(self.connection, sandbox_id))

    @web.authenticated
    @authorized
    async def patch(self, sandbox_id: str) -> None:
        body = self.decode_body(NameBody)
        self.answer(await sandbox_calls.rename(self.connection, sandbox_id, body.name.strip()))

    @web.authenticated
    @authorized
    async def delete(self, sandbox_id: str) -> None:
        await sandbox_calls.kill(self.connection, sandbox_id)
        self.answer_empty()


class TimeoutHandler(SandboxRoute):
    """Sets the end of a sandbox to ``timeout`` seconds from now."""

    bodies: ClassVar = {"post": TimeoutBody}
    answers: ClassVar = {"post": EMPTY}

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        body = self.decode_body(TimeoutBody)
        await sandbox_calls.set_timeout(self.connection, sandbox_id, body.timeout)
        self.answer_empty()


class PauseHandler(SandboxRoute):
    """Pauses a running sandbox."""

    answers: ClassVar = {"post": EMPTY}

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        await sandbox_calls.pause(self.connection, sandbox_id)
        self.answer_empty()


class ConnectHandler(SandboxRoute):
    """Resumes a paused sandbox, or extends the time of a running one."""

    bodies: ClassVar = {"post": ConnectBody}
    answers: ClassVar = {"post": Answer(ListedSandbox)}

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        body = self.decode_body(ConnectBody)
        self.answer(await sandbox_calls.connect(self.connection, sandbox_id, body.timeout))


class MetricsHistoryHandler(SandboxRoute):
    """Answers the recorded readings of a sandbox, oldest first."""

    answers: ClassVar = {"get": Answer(list[SandboxMetric])}
    queries: ClassVar = {
        "get": (
            Parameter("start", "No readings before this time, in unix seconds.", int),
            Parameter("end", "No readings after this time, in unix seconds.", int),
        )
    }

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        start, end = self._seconds("start"), self._seconds("end")
        self.answer(await sandbox_calls.read_history(self.connection, sandbox_id, start, end))

    def _seconds(self, name: str) -> int | None:
        text = self.get_query_argument(name, "")
        if text and not (text.isascii() and text.isdigit() and len(text) < 16):
            raise InvalidArgumentError(f"'{name}' must be a time in unix seconds")
        return int(text) if text else None
