"""Routes that look into one sandbox: its log and changes."""

from __future__ import annotations

from typing import ClassVar, Final

from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.errors import InvalidArgumentError
from sbx_jupyter.protocol.access import parse_sandbox_id
from sbx_jupyter.protocol.diff import Diff
from sbx_jupyter.protocol.platform import SandboxLogEntry
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import (
    DOWNLOAD,
    NEEDED_PATH,
    OCTETS,
    Answer,
    Parameter,
)

MAX_LOG: Final = 1000

_SINCE: Final = Parameter("since", "A snapshot to compare with; default: the template.")


class LogsHandler(SandboxRoute):
    """The newest ``limit`` entries of a sandbox's log (default and most: 1000), oldest first."""

    queries: ClassVar = {"get": (Parameter("limit", "The most entries to give.", int),)}
    answers: ClassVar = {"get": Answer({"logs": list[SandboxLogEntry]})}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        self.connection.require("logs")
        limit = self._limit()
        newest = await self.connection.call(
            lambda platform: platform.logs(sandbox_id, limit=limit, direction="backward")
        )
        self.answer({"logs": newest[::-1]})

    def _limit(self) -> int:
        text = self.get_query_argument("limit", str(MAX_LOG))
        if not (text.isascii() and text.isdigit() and 0 < len(text) < 6):
            raise InvalidArgumentError(f"'limit' must be a number from 1 to {MAX_LOG}")
        return min(max(int(text), 1), MAX_LOG)


class DiffHandler(SandboxRoute):
    """What a sandbox changed since its template, or since the snapshot in ``since``."""

    queries: ClassVar = {"get": (_SINCE,)}
    answers: ClassVar = {"get": Answer(Diff)}

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        self.connection.require("diff")
        since = self.get_query_argument("since", "") or None
        self.answer(
            await self.connection.call(lambda platform: platform.diff(sandbox_id, since=since))
        )


class EarlierFileHandler(SandboxRoute):
    """The content of ``path`` before the sandbox changed or deleted it, at most 1 MiB."""

    queries: ClassVar = {"get": (NEEDED_PATH, _SINCE)}
    answers: ClassVar = {"get": DOWNLOAD}

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        sandbox_id = parse_sandbox_id(sandbox_id)
        self.connection.require("diff")
        path = self.get_query_argument("path", "", strip=False)
        since = self.get_query_argument("since", "") or None
        content = await self.connection.call(
            lambda platform: platform.earlier_file(sandbox_id, path, since=since)
        )
        # Whatever the file is, a browser that opens this address runs none of it.
        self.set_header("Content-Disposition", "attachment")
        self.set_header("X-Content-Type-Options", "nosniff")
        await self.finish(content, set_content_type=OCTETS)
