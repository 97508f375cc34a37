"""Attacks from outside on the ports of a sandbox, by somebody who knows its id only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from sbx_jupyter.protocol.access import SANDBOX_ID_HEADER, SANDBOX_PORT_HEADER
from sbx_jupyter.protocol.runtime import INTERPRETER_PORT, PROXY_PORT
from tests.security.interface import Hostility

if TYPE_CHECKING:
    from sbx_jupyter.client import AsyncSandbox
    from tests.security.siege import Siege

_GROUP = "use the ports of a sandbox without its tokens"


async def _ask(
    siege: Siege, box: AsyncSandbox, port: int, method: str, path: str, content: bytes = b""
) -> httpx.Response:
    headers = {SANDBOX_ID_HEADER: box.sandbox_id, SANDBOX_PORT_HEADER: str(port)}
    async with httpx.AsyncClient(trust_env=False, timeout=40) as http:
        return await http.request(
            method, siege.config.api_url + path, headers=headers, content=content
        )


async def run_code(siege: Siege, box: AsyncSandbox) -> str:
    for path in ("/execute", "/%65xecute", "/contexts/x/../../execute", "//execute"):
        answer = await _ask(siege, box, INTERPRETER_PORT, "POST", path, b'{"code": "1"}')
        assert answer.status_code == 401, f"{path}: {answer.status_code} {answer.text[:200]}"
    return "refused"


async def use_proxy(siege: Siege, box: AsyncSandbox) -> str:
    answer = await _ask(siege, box, PROXY_PORT, "GET", "/")
    assert answer.status_code == 502, f"the proxy answered {answer.status_code}"
    assert "port is not open" in answer.text
    return "refused"


ATTACKS = [
    Hostility("run code through the interpreter", _GROUP, run_code),
    Hostility("send requests through the egress proxy", _GROUP, use_proxy),
]
