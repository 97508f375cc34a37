"""A sandboxed kernel that sends what it likes, never starts, or loses its engine in mid-cell."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import AsyncKernelManager

from sbx_jupyter.client import Sandbox
from tests.engine_process import engine_process
from tests.notebook_tools.conftest import KERNEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.timeout(300)

FORGE = """
import json, os, zmq
from ipykernel.kernelapp import IPKernelApp
app = IPKernelApp.instance()
session, out = app.session, app.iopub_socket
def signed(kind, content, parent=b"{}", header=None):
    header = header or json.dumps(session.msg_header(kind), default=str).encode()
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    parts = [header, parent, b"{}", content]
    return [kind.encode(), b"<IDS|MSG>", session.sign(parts), *parts]
def opened(comm_id, **more):
    return signed("comm_open", {"comm_id": comm_id, "target_name": "jupyter.widget"} | more)
deep = b"[" * 200_000 + b"]" * 200_000
text = {"name": "stdout", "text": "x"}
messages = [
    signed("stream", deep), signed("stream", b'{"name": "stdout", "text": ' + deep + b"}"),
    signed("stream", [1, 2]), signed("stream", b"not JSON"), signed("stream", {"text": {"a": 1}}),
    signed("stream", text, parent=deep), signed("stream", text, header=deep),
    signed("stream", text, parent=b'{"msg_id": "somebody-elses"}'),
    signed("status", {"execution_state": "dead"}), signed("shutdown_reply", {"restart": False}),
    signed("display_data", {"data": [], "metadata": 1}),
    signed("display_data", {"data": {"text/html": {"a": 1}}}),
    signed("error", {"ename": [], "evalue": {}, "traceback": "x"}),
    signed("execute_result", {"data": {"text/plain": 1}}),
    opened("x" * 10**6), opened("a", target_name="evil", target_module="http://evil/x.js"),
    opened("sbx-jupyter:kernel-ended", data={}), opened("b", data=1),
    signed("comm_msg", {"comm_id": "sbx-jupyter:widgets", "data": {"kind": "comm_open"}}),
    [b"<IDS|MSG>"] * 9, [b"x"], [b""] * 1000,
    [b"<IDS|MSG>", b"bad", b"{}", b"{}", b"{}", b"{}"],
    signed("stream", {"name": "stdout", "text": "y" * (40 * 2**20)}),
]
for message in messages:
    for _ in range(3):
        out.send_multipart(message)
for number in range(20_000):
    out.send_multipart(opened(f"c{number}", data={"state": {}}))
for stream in (app.shell_socket, app.control_socket, app.stdin_socket):
    for message in messages:
        for identity in (b"guest", b"other"):
            stream.send_multipart([identity, *message])
print("sent")
"""


WAITING = """
import os, time
print("on", flush=True)
while not os.path.exists("/home/user/go"): time.sleep(0.05)
print("finished")
"""


class Kernel:
    def __init__(self, manager: AsyncKernelManager, client: Any) -> None:
        self.manager = manager
        self.client = client

    async def run(self, code: str, timeout: int = 60) -> str:
        said: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] in ("stream", "error"):
                content = message["content"]
                said.append(content.get("text") or "\n".join(content.get("traceback", [])))

        await self.client.execute_interactive(
            code, output_hook=hear, timeout=timeout, allow_stdin=False
        )
        return "".join(said)


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Kernel]:
    manager = AsyncKernelManager(kernel_name=KERNEL)
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def test_forged_messages_on_every_channel_leave_the_kernel_usable():
    async with running() as kernel, running() as other:
        said = await kernel.run(FORGE)
        assert "sent" in said, said
        assert await kernel.run("print(6 * 7)") == "42\n"
        assert await other.run("print(6 * 7)") == "42\n"


async def test_a_kernel_that_never_answers_is_ended():
    manager = AsyncKernelManager(kernel_name=KERNEL)
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv = ["sleep", "1000"]
    await manager.start_kernel()
    client = manager.client()
    client.start_channels()
    with pytest.raises(RuntimeError, match="didn't respond"):
        await client.wait_for_ready(timeout=5)
    client.stop_channels()
    await manager.shutdown_kernel(now=True)


async def test_the_engine_killed_in_mid_cell_is_said_and_the_next_one_goes_on():
    with engine_process("mid-cell") as engine, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "E2B_API_URL": engine.url,
            "E2B_SANDBOX_URL": engine.url,
            "E2B_API_KEY": engine.key,
        }.items():
            patch.setenv(name, value)
        async with running() as kernel:
            request = kernel.client.execute(WAITING)
            while "on" not in await next_text(kernel, request):
                pass
            engine.kill()
            started = time.monotonic()
            said = await next_text(kernel, request)
            print(f"said after {time.monotonic() - started:.0f} s: {said}")
            assert "does not answer" in said
            # Its sandbox lives on: the same engine takes it over, and the kernel with it.
            engine.options = ("--port", str(engine.port))
            await asyncio.to_thread(engine.start)
            assert "answers again" in await next_text(kernel, request)
            [listed] = await asyncio.to_thread(Sandbox.list)
            await asyncio.to_thread(finish, listed.sandbox_id)
            assert await next_text(kernel, request) == "finished\n"


def finish(sandbox_id: str) -> None:
    Sandbox.connect(sandbox_id).files.write("/home/user/go", "")


async def next_text(kernel: Kernel, request: str) -> str:
    while True:
        message = await kernel.client.get_iopub_msg(timeout=120)
        if message["parent_header"].get("msg_id") == request and message["msg_type"] == "stream":
            return message["content"]["text"]
