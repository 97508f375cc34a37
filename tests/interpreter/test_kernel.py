"""What the interpreter makes of its kernels' channels."""

from __future__ import annotations

import asyncio
import queue
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
import zmq
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import write_connection_file

from sbx_jupyter.interpreter import contexts, events
from sbx_jupyter.interpreter.kernel import Kernel
from tests.waiting import PATIENCE, async_until

if TYPE_CHECKING:
    from pathlib import Path


class WokenForNothing:
    """A channel that first does what those of jupyter_client do when nothing is to be read."""

    def __init__(self, message: dict[str, Any]) -> None:
        self._answers: list[dict[str, Any] | Exception] = [queue.Empty(), message]

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:
        if not self._answers:
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_replies_arrive_after_a_channel_woke_up_for_nothing(tmp_path: Path):
    message = {"parent_header": {"msg_id": "m"}}

    class Client:
        shell_channel = WokenForNothing(message)

    kernel = Kernel(tmp_path, cast("AsyncKernelClient", Client()))
    pump = asyncio.create_task(kernel._pump_replies())

    assert await kernel._reply("m", timeout=10) == message
    pump.cancel()


class SaysTooMuch:
    """A kernel that lost what it said last, since it said it faster than it was read."""

    has_replied = False

    def __init__(self) -> None:
        self._left = [{"msg_type": "status", "content": {"execution_state": "busy"}}]

    async def receive(self) -> dict[str, Any]:
        if self._left:
            return self._left.pop()
        await asyncio.Event().wait()
        raise AssertionError


async def test_events_end_when_a_kernel_has_replied_and_says_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(contexts, "KEEPALIVE_INTERVAL", 0.01)
    kernel = SaysTooMuch()
    said = contexts._events(cast("Kernel", kernel))

    for _ in range(5):
        assert await anext(said) == events.KEEPALIVE
    kernel.has_replied = True

    for _ in range(3):
        assert await anext(said) == events.KEEPALIVE
    said_last = await anext(said)
    assert "output is lost" in said_last["text"]
    assert isinstance(said_last["timestamp"], str)
    with pytest.raises(StopAsyncIteration):
        await anext(said)


async def test_a_kernel_that_answers_later_than_any_wait_so_far_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On a busy machine; each wait that ends too early asks again, and its answer is too late."""
    waits: list[float] = []
    kernel = Kernel(tmp_path, cast("AsyncKernelClient", None))

    async def reply(_: str, timeout: float) -> dict[str, Any]:
        waits.append(timeout)
        await asyncio.sleep(0)
        if timeout < 3:
            raise TimeoutError
        return {}

    async def receive() -> dict[str, Any]:
        return {}

    monkeypatch.setattr(kernel, "_ask", lambda: "a request")
    monkeypatch.setattr(kernel, "_reply", reply)
    monkeypatch.setattr(kernel, "receive", receive)

    async with asyncio.timeout(PATIENCE):
        await kernel._handshake()

    assert waits == sorted(waits)
    assert waits[-1] >= 3


async def test_a_reply_that_arrives_just_before_the_next_request_is_read(tmp_path: Path):
    """The send takes notice of it, so that nothing wakes the socket of asyncio any more."""
    file = str(tmp_path / "connection.json")
    write_connection_file(fname=file, transport="ipc", ip=str(tmp_path / "k"))
    client = AsyncKernelClient()
    client.load_connection_file(file)
    context = zmq.Context[Any]()
    with context.socket(zmq.ROUTER) as shell:
        shell.bind(f"ipc://{client.ip}-{client.shell_port}")
        kernel = Kernel(tmp_path, client)
        kernel._open_channels()

        async with asyncio.timeout(PATIENCE):
            asked = kernel._ask()
            await async_until(lambda: shell.poll(0))
            identity, *_ = shell.recv_multipart()
            replied = asyncio.ensure_future(kernel._reply(asked, PATIENCE))
            await asyncio.sleep(0.1)  # the loop comes to rest: only the socket would wake it
            parent = {"msg_id": asked}
            client.session.send(shell, "kernel_info_reply", {}, parent=parent, ident=identity)
            time.sleep(0.1)  # nothing of this loop runs until the reply is there
            kernel._ask()
            assert (await replied)["parent_header"]["msg_id"] == asked

        for pump in kernel._pumps:
            pump.cancel()
        client.stop_channels()
    context.term()
