"""Route that joins uploaded pieces to one file: the end of an upload that can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.client.api.transport import raise_for_status
from sbx_jupyter.client.files.files import Files
from sbx_jupyter.errors import FailedPreconditionError, InvalidArgumentError
from sbx_jupyter.protocol.connect import UNARY_CONTENT_TYPE
from sbx_jupyter.protocol.runtime import ComposeRequest, WrittenFile
from sbx_jupyter.server.answers import SandboxRoute
from sbx_jupyter.server.description.operations import Answer

if TYPE_CHECKING:
    from sbx_jupyter.client.api.runtime import RuntimeClient

MAX_PIECES: Final = 2000
COMPOSE_TIMEOUT: Final = 600.0


class ComposeBody(msgspec.Struct, kw_only=True, frozen=True):
    """The body of ``POST sandboxes/{id}/files/compose``; ``size`` is that of the whole file."""

    sources: list[str]
    destination: str
    size: int | None = None


class ComposeHandler(SandboxRoute):
    """Joins files of a sandbox to one, in order, and removes them.

    With ``size``, pieces that have not that many bytes together are refused, and stay.
    """

    bodies: ClassVar = {"post": ComposeBody}
    answers: ClassVar = {"post": Answer(WrittenFile)}

    @web.authenticated
    @authorized
    async def post(self, sandbox_id: str) -> None:
        body = self.decode_body(ComposeBody)
        if not 0 < len(body.sources) <= MAX_PIECES:
            raise InvalidArgumentError(f"'sources' must name 1 to {MAX_PIECES} files")
        runtime = await self.connection.runtime(sandbox_id)
        if body.size is not None:
            await _check_size(runtime, body.sources, body.size)
        request = ComposeRequest(source_paths=body.sources, destination=body.destination)
        response = await runtime.transport.request(
            "POST",
            runtime.url("/files/compose"),
            headers=runtime.headers() | {"Content-Type": UNARY_CONTENT_TYPE},
            content=msgspec.json.encode(request),
            timeout=COMPOSE_TIMEOUT,
        )
        self.answer_raw((await raise_for_status(response)).content)


async def _check_size(runtime: RuntimeClient, sources: list[str], size: int) -> None:
    files = Files(runtime)
    found = 0
    for source in sources:
        found += (await files.get_info(source)).size
    if found != size:
        raise FailedPreconditionError(
            f"the pieces have {found} bytes instead of {size}: send those again that are incomplete"
        )
