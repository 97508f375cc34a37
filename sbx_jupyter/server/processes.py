"""Routes for what runs in one sandbox: its processes, signals to them, and the ports they open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.client.processes.commands import Commands
from sbx_jupyter.errors import NotFoundError, UnimplementedError
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.protocol.processes import ListeningPort, SandboxProcess
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import EMPTY, Answer, sparse
from sbx_jupyter.server.ports.access import PortMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sbx_jupyter.protocol.runtime import ProcessInfo

SIGNAL_TIMEOUT: Final = 10.0

Signal = Literal["TERM", "KILL", "INT", "HUP", "QUIT", "STOP", "CONT", "USR1", "USR2"]


ShownProcess = sparse(
    SandboxProcess,
    "ShownProcess",
    keep=("pid",),
    started=bool,
    tag=str | msgspec.UnsetType | None,
    cmd=str | msgspec.UnsetType,
    cwd=str | msgspec.UnsetType | None,
)


class ShownPort(ListeningPort, kw_only=True, frozen=True):
    """A port on which a program listens; ``url`` is a path of this server."""

    url: str


class PortList(PortMode):
    """The ports of a sandbox, and where their pages are."""

    ports: list[ShownPort]


class SignalBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST sandboxes/{id}/processes/{pid}/signal``."""

    signal: Signal = "TERM"


class ProcessesHandler(SandboxRoute):
    """The processes of a sandbox, without their variables, which may hold secrets.

    ``started`` marks those that clients started, with ``tag``, ``cmd`` and ``cwd``. Where the
    deployment tells of no others, only these are listed, without ``memoryBytes`` and the rest.
    """

    answers: ClassVar = {"get": Answer({"processes": list[ShownProcess]})}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        runtime = await self.connection.runtime(sandbox_id)
        started = {each.pid: _started(each) for each in await Commands(runtime).list()}
        seen = [msgspec.to_builtins(each) for each in await self._seen(sandbox_id)]
        shown = [each | started.pop(each["pid"], {"started": False}) for each in seen]
        self.answer({"processes": [*shown, *({"pid": pid, **s} for pid, s in started.items())]})

    async def _seen(self, sandbox_id: str) -> Sequence[SandboxProcess]:
        try:
            self.connection.require("processes")
            return await self.connection.call(lambda platform: platform.processes(sandbox_id))
        except (NotFoundError, UnimplementedError):
            return ()


class SignalHandler(SandboxRoute):
    """Sends a signal to any process of a sandbox."""

    bodies: ClassVar = {"post": SignalBody}
    answers: ClassVar = {"post": EMPTY}
    actions: ClassVar = {"post": "execute"}

    @web.authenticated
    # jupyter_server annotates only the form without arguments.
    @authorized("execute")  # pyright: ignore[reportUntypedFunctionDecorator]
    async def post(self, sandbox_id: str, pid: str) -> None:
        name = self.decode_body(SignalBody).signal
        commands = Commands(await self.connection.runtime(sandbox_id))
        sent = await commands.run(
            ["kill", "-s", name, "--", pid], user="root", timeout=SIGNAL_TIMEOUT
        )
        if sent.exit_code != 0:
            raise NotFoundError(f"no process {pid} runs in this sandbox")
        self.answer_empty()


class PortsHandler(SandboxRoute):
    """The TCP ports on which programs of a sandbox listen, with where a browser finds each.

    ``mode`` says how pages are kept apart: below a ``path``, or at a ``host`` name for each port.
    """

    answers: ClassVar = {"get": Answer(PortList)}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        self.connection.require("ports")
        found = await self.connection.call(lambda platform: platform.ports(sandbox_id))
        shown = [show_port(each, sandbox_id, self.base_url) for each in found]
        mode: PortMode = self.settings["sbx_jupyter"].ports.describe()
        answer: PortList = {"ports": shown, **mode}
        self.answer(answer)


def show_port(port: ListeningPort, sandbox_id: str, base_url: str) -> ShownPort:
    """A port for a front end; ``url`` is below this server."""
    url = f"{base_url}sbx/port/{sandbox_id}/{port.port}/"
    return ShownPort(**msgspec.structs.asdict(port), url=url)


def _started(process: ProcessInfo) -> dict[str, Any]:
    return {
        "started": True,
        "tag": process.tag,
        "cmd": process.config.cmd,
        "args": process.config.args,
        "cwd": process.config.cwd,
    }
