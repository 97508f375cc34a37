"""Routes that pass unary calls of the runtime API on unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_server.auth.decorator import authorized
from tornado import web

from sbx_jupyter.client.api.transport import raise_for_status
from sbx_jupyter.errors import ResourceExhaustedError, UnimplementedError
from sbx_jupyter.protocol.connect import UNARY_CONTENT_TYPE
from sbx_jupyter.server.answers import MAX_JSON_BODY, SandboxRoute, require

if TYPE_CHECKING:
    import httpx

    from sbx_jupyter.client.api.runtime import RuntimeClient

METHODS: Final = {
    "filesystem.Filesystem/Stat": "read",
    "filesystem.Filesystem/ListDir": "read",
    "filesystem.Filesystem/MakeDir": "write",
    "filesystem.Filesystem/Move": "write",
    "filesystem.Filesystem/Remove": "write",
    "process.Process/List": "read",
    "process.Process/SendSignal": "execute",
}
"""The methods that front ends may call, each with the action that the user needs permission for.

Streaming and stateful methods have their own routes.
"""


class RpcHandler(SandboxRoute):
    """``POST rpc/{service}/{method}``: the body and the answer are the runtime API's JSON."""

    @web.authenticated
    # jupyter_server annotates only the form without arguments.
    @authorized("read")  # pyright: ignore[reportUntypedFunctionDecorator]
    async def post(self, sandbox_id: str, service: str, method: str) -> None:
        call = f"{service}/{method}"
        if call not in METHODS:
            raise UnimplementedError(f"{call} is not offered here")
        await require(self, METHODS[call])
        body = self.request.body or b"{}"
        if len(body) > MAX_JSON_BODY:
            raise ResourceExhaustedError(f"the body is larger than {MAX_JSON_BODY} bytes")
        runtime = await self.connection.runtime(sandbox_id)
        response = await _send(runtime, "POST", f"/{call}", body)
        self.answer_raw(response.content)


class MetricsHandler(SandboxRoute):
    """The live reading of one sandbox."""

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
