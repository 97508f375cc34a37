"""Routes that pass unary calls of the runtime API on unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.client.api.transport import raise_for_status
from sbx_jupyter.errors import ResourceExhaustedError, UnimplementedError
from sbx_jupyter.protocol.connect import UNARY_CONTENT_TYPE
from sbx_jupyter.protocol.runtime import (
    Empty,
    EntryResponse,
    ListDirRequest,
    ListDirResponse,
    ListProcessesResponse,
    MoveRequest,
    PathRequest,
    Reading,
    SendSignalRequest,
)
from sbx_jupyter.server.answers import MAX_JSON_BODY, SandboxRoute, require
from sbx_jupyter.server.description.operations import Answer

if TYPE_CHECKING:
    import httpx

    from sbx_jupyter.client.api.runtime import RuntimeClient


class Method(NamedTuple):
    """A call of the runtime API: what the user needs permission for, its request and answer."""

    action: str
    request: type[object]
    answer: type[object]


METHODS: Final = {
    "filesystem.Filesystem/Stat": Method("read", PathRequest, EntryResponse),
    "filesystem.Filesystem/ListDir": Method("read", ListDirRequest, ListDirResponse),
    "filesystem.Filesystem/MakeDir": Method("write", PathRequest, EntryResponse),
    "filesystem.Filesystem/Move": Method("write", MoveRequest, EntryResponse),
    "filesystem.Filesystem/Remove": Method("write", PathRequest, Empty),
    "process.Process/List": Method("read", Empty, ListProcessesResponse),
    "process.Process/SendSignal": Method("execute", SendSignalRequest, Empty),
}
"""The methods that front ends may call.

Streaming and stateful methods have their own routes.
"""


class RpcHandler(SandboxRoute):
    """``POST rpc/{service}/{method}``: the body and the answer are the runtime API's JSON.

    Deployments other than the bundled engine may write 64-bit numbers as text.
    """

    methods: ClassVar = METHODS

    @web.authenticated
    # jupyter_server annotates only the form without arguments.
    @authorized("read")  # pyright: ignore[reportUntypedFunctionDecorator]
    async def post(self, sandbox_id: str, service: str, method: str) -> None:
        call = f"{service}/{method}"
        if call not in METHODS:
            raise UnimplementedError(f"{call} is not offered here")
        await require(self, METHODS[call].action)
        body = self.request.body or b"{}"
        if len(body) > MAX_JSON_BODY:
            raise ResourceExhaustedError(f"the body is larger than {MAX_JSON_BODY} bytes")
        runtime = await self.connection.runtime(sandbox_id)
        response = await _send(runtime, "POST", f"/{call}", body)
        self.answer_raw(response.content)


class MetricsHandler(SandboxRoute):
    """The live reading of one sandbox."""

    answers: ClassVar = {"get": Answer(Reading)}

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, sandbox_id: str) -> None:
        runtime = await self.connection.runtime(sandbox_id)
        response = await _send(runtime, "GET", "/metrics")
        self.answer_raw(response.content)


async def _send(
    runtime: RuntimeClient, method: str, path: str, body: bytes | None = None
) -> httpx.Response:
    headers = runtime.headers() | {"Accept-Encoding": "identity"}
    if body is not None:
        headers |= {"Content-Type": UNARY_CONTENT_TYPE, "Connect-Protocol-Version": "1"}
    response = await runtime.transport.request(
        method, runtime.url(path), headers=headers, content=body
    )
    return await raise_for_status(response)
