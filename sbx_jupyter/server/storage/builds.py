"""Routes that follow and cancel builds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final, TypedDict

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from sbx_jupyter.client.templates.templates import TemplateClient
from sbx_jupyter.errors import NotFoundError, SbxError
from sbx_jupyter.protocol import connect
from sbx_jupyter.protocol.templates import BuildLogEntry, BuildStatus
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import EMPTY, Answer, Failure, Parameter, events
from sbx_jupyter.server.streams import ALIVE, HEARTBEAT, LAST_EVENT, EventStream, event

if TYPE_CHECKING:
    from sbx_jupyter.protocol.templates import BuildInfo
    from sbx_jupyter.server.deployments.connection import Connection

LONGEST_WAIT: Final = 30
"""Seconds that a request for more of a log may wait for it."""

_LOOK_EVERY: Final = 0.3
_ENDED: Final = ("ready", "error")


class BuildFailure(TypedDict):
    """Why a build failed, and in which step."""

    message: str
    step: str | None


class BuildProgress(TypedDict):
    """What a build has done since the last answer; ``next`` is the offset of the next request."""

    status: BuildStatus
    logs: list[BuildLogEntry]
    next: int
    reason: BuildFailure | None


class BuildHandler(SandboxRoute):
    """The status of a build and its log from ``offset`` on; ``DELETE`` cancels it.

    Answers ``{"status", "logs", "next", "reason"}``; ``next`` is the offset of the next request,
    ``reason`` why the build failed. With ``wait`` (seconds, at most 30) the answer waits for more.
    """

    queries: ClassVar = {
        "get": (
            Parameter("offset", "The number of entries of the log that are known already.", int),
            Parameter("wait", "Seconds to wait for news, at most 30.", int),
        )
    }
    answers: ClassVar = {"get": Answer(BuildProgress), "delete": EMPTY}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, template_id: str, build_id: str) -> None:
        offset = self.query_number("offset", 0, 1 << 40)
        end = asyncio.get_running_loop().time() + self.query_number("wait", 0, LONGEST_WAIT)
        client = await client_of(self.connection)
        while True:
            info = await client.build_status(template_id, build_id, offset)
            is_over = info.status in _ENDED or asyncio.get_running_loop().time() >= end
            if info.log_entries or is_over:
                break
            await asyncio.sleep(_LOOK_EVERY)
        progress: BuildProgress = {
            "status": info.status,
            "logs": info.log_entries,
            "next": offset + len(info.log_entries),
            "reason": _reason(info),
        }
        self.answer(progress)

    @web.authenticated
    @authorized
    async def delete(self, template_id: str, build_id: str) -> None:
        self.connection.require("catalogue")
        client = await client_of(self.connection)
        if not await client.cancel_build(template_id, build_id):
            raise NotFoundError(f"there is no build {build_id} of {template_id}")
        self.answer_empty()


class BuildLogHandler(EventStream):
    """Follows the log of a build by server-sent events.

    The event ``log`` for each entry, whose id is how many there were; at the end ``end`` with
    ``{"status", "reason"}``, or ``problem`` when the log cannot be read any more.
    """

    queries: ClassVar = {"get": (LAST_EVENT,)}
    answers: ClassVar = {
        "get": events(
            log=BuildLogEntry,
            end={"status": BuildStatus, "reason": BuildFailure | None},
            problem=Failure,
        )
    }

    @web.authenticated
    @authorized
    async def get(self, template_id: str, build_id: str) -> None:
        last = self.last_event
        offset = int(last) if last.isascii() and last.isdigit() and len(last) < 12 else 0
        client = await client_of(self.connection)
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


async def client_of(connection: Connection) -> TemplateClient:
    """A client for the templates and builds of a deployment."""
    transport = await connection.transport()
    return TemplateClient(transport.config, transport)


def _reason(info: BuildInfo) -> BuildFailure | None:
    if isinstance(info.reason, msgspec.UnsetType):
        return None
    return {"message": info.reason.message, "step": info.reason.step}
