"""Route for what several sandboxes use now, so that a list of them costs one request."""

from __future__ import annotations

from typing import ClassVar, Final

from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.protocol.platform import SandboxMetric
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import Answer, Parameter

MAX_SANDBOXES: Final = 100


class UsageHandler(SandboxRoute):
    """The newest recorded reading of each of the ``sandboxes``, ids separated by commas.

    Sandboxes without one, and those that do not exist, are left out.
    """

    queries: ClassVar = {"get": (Parameter("sandboxes", "Their ids, separated by commas."),)}
    answers: ClassVar = {"get": Answer({"readings": dict[str, SandboxMetric]})}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self) -> None:
        named = self.get_query_argument("sandboxes", "")
        ids = [parse_sandbox_id(each) for each in named.split(",") if each]
        if len(ids) > MAX_SANDBOXES:
            raise InvalidArgumentError(f"'sandboxes' has more than {MAX_SANDBOXES} ids")
        found = (
            await self.connection.call(lambda platform: platform.latest_metrics(ids)) if ids else {}
        )
        self.answer({"readings": found})
