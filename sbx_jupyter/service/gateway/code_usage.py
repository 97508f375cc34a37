"""Measures what code uses that the interpreter of a sandbox runs, for the end of its answer.

A client that wants to know so needs no further requests before and after the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.access import USAGE_HEADER
from sbx_jupyter.protocol.diff import CodeUsage
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT

if TYPE_CHECKING:
    from tornado.httputil import HTTPHeaders, ResponseStartLine

    from sbx_jupyter.protocol.access import Route
    from sbx_jupyter.protocol.diff import Diff
    from sbx_jupyter.protocol.runtime import Reading
    from sbx_jupyter.service.context import RoutedRequest, Service

WITH_CHANGES: Final = "changes"
_MANY: Final = 5000
"""Changes beyond which the client asks for the diff itself, if it wants it."""


class CodeUsageMeter:
    """Measures one run of code in one sandbox."""

    def __init__(
        self, service: Service, sandbox_id: str, before: Reading, *, with_changes: bool
    ) -> None:
        self._service = service
        self._sandbox_id = sandbox_id
        self._before = before
        self._with_changes = with_changes

    @classmethod
    async def begin(
        cls, service: Service, request: RoutedRequest, route: Route
    ) -> CodeUsageMeter | None:
        """Take the reading before the code; ``None`` for requests that do not ask for it."""
        asked = request.headers.get(USAGE_HEADER)
        if asked is None or route.port != INTERPRETER_PORT or request.path != "/execute":
            return None
        before = await _read(service, route.sandbox_id)
        if before is None:
            return None
        return cls(service, route.sandbox_id, before, with_changes=asked == WITH_CHANGES)

    def fits(self, line: ResponseStartLine, headers: HTTPHeaders) -> bool:
        """Whether a line can follow the answer of the interpreter."""
        return line.code == 200 and "Content-Length" not in headers

    async def line(self) -> bytes:
        """The line for the end of the answer."""
        after = await _read(self._service, self._sandbox_id)
        usage = CodeUsage(diff=await self._diff() if self._with_changes else None)
        if after is not None:
            before = self._before
            usage = msgspec.structs.replace(
                usage,
                cpu_ns=max(0, after.cpu_ns - before.cpu_ns) if after.cpu_ns else None,
                mem_used=max(before.mem_used, after.mem_used),
            )
        return msgspec.json.encode(usage) + b"\n"

    async def _diff(self) -> Diff | None:
        try:
            diff = await self._service.engine.storage.diffs.diff(self._sandbox_id, None)
        except SbxError:
            return None  # the client asks itself, and gets the reason
        return diff if len(diff.changes) <= _MANY else None


async def _read(service: Service, sandbox_id: str) -> Reading | None:
    sandbox = service.engine.sandboxes.find_live(sandbox_id)
    if sandbox is None:
        return None
    try:
        return await sandbox.read_metrics()
    except SbxError:
        return None
