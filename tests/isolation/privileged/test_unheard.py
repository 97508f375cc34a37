"""Sandboxes that the helper made for a request whose answer nobody heard."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import UnavailableError
from sbx_jupyter.isolation.cage import Cage
from sbx_jupyter.isolation.fence_spec import FenceSpec, Limits
from sbx_jupyter.isolation.privileged import messages, remote_fence
from sbx_jupyter.isolation.privileged.connection import HelperConnection
from sbx_jupyter.isolation.privileged.remote_fence import RemoteFence
from tests.isolation.privileged.conftest import helper_of

SANDBOX = "i" + "1" * 20


@pytest.fixture
def listener(data_dir: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(data_dir.parent / "agent.sock"))
        listener.listen()
        yield listener


@pytest.fixture
async def remote(connection: HelperConnection, data_dir: Path) -> AsyncIterator[RemoteFence]:
    fence = RemoteFence(data_dir, connection)
    await fence.open()
    yield fence
    await fence.collect(set())
    await fence.tree_operations.remove(data_dir / "sandboxes" / SANDBOX)


async def make(remote: RemoteFence, data_dir: Path, listener: socket.socket) -> Cage:
    limits = Limits(memory_mb=64, cpu_count=1, processes=32, disk_mb=64, open_files=256)
    writable = data_dir / "sandboxes" / SANDBOX
    spec = FenceSpec(SANDBOX, layers=(), base="host", writable=writable, limits=limits)
    return await remote.create(spec, listener)


async def test_a_sandbox_that_is_made_too_late_is_ended(
    remote: RemoteFence,
    connection: HelperConnection,
    data_dir: Path,
    listener: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
):
    call: Callable[..., Any] = connection.call
    asked: list[type[messages.Message]] = []

    async def note(message: messages.Message, *rest: Any, **options: Any) -> Any:
        asked.append(type(message))
        return await call(message, *rest, **options)

    monkeypatch.setattr(connection, "call", note)
    with monkeypatch.context() as patch:
        patch.setattr(remote_fence, "_CREATE_TIMEOUT", 0.001)
        with pytest.raises(UnavailableError, match="no answer"):
            await make(remote, data_dir, listener)

    assert asked == [messages.Create, messages.Kill]
    assert os.listdir(data_dir / "cages") == []
    # The first one is neither there nor being made.
    (await make(remote, data_dir, listener)).close()


async def test_the_next_helper_ends_a_sandbox_whose_helper_died(
    remote: RemoteFence,
    connection: HelperConnection,
    data_dir: Path,
    listener: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
):
    call: Callable[..., Any] = connection.call
    killed: list[int] = []

    async def lose_the_answer(message: messages.Message, *rest: Any, **options: Any) -> Any:
        body, fds = await call(message, *rest, **options)
        if not isinstance(message, messages.Create):
            return body, fds
        for fd in fds:
            os.close(fd)
        assert os.listdir(data_dir / "cages") == [SANDBOX]
        killed.append(helper_of(data_dir))
        os.kill(killed[0], signal.SIGKILL)
        raise UnavailableError("the sandbox is gone")

    monkeypatch.setattr(connection, "call", lose_the_answer)
    with pytest.raises(UnavailableError):
        await make(remote, data_dir, listener)

    assert os.listdir(data_dir / "cages") == []
    assert helper_of(data_dir) != killed[0]


async def test_a_sandbox_ends_although_the_helper_dies_over_it(
    remote: RemoteFence, data_dir: Path, listener: socket.socket
):
    cage = await make(remote, data_dir, listener)
    helper = helper_of(data_dir)
    os.kill(helper, signal.SIGSTOP)  # it takes no message any more
    ending = asyncio.ensure_future(cage.kill())
    await asyncio.sleep(0)

    os.kill(helper, signal.SIGKILL)
    await ending

    cage.close()
    assert os.listdir(data_dir / "cages") == []
    (await make(remote, data_dir, listener)).close()


async def test_a_sandbox_that_was_looked_at_while_it_ended_can_be_made_again(
    remote: RemoteFence, connection: HelperConnection, data_dir: Path, listener: socket.socket
):
    for _ in range(5):
        cage = await make(remote, data_dir, listener)
        looks = [connection.call(messages.Adopt(sandbox_id=SANDBOX)) for _ in range(10)]
        ending = asyncio.ensure_future(cage.kill())
        for _, fds in await asyncio.gather(*looks):
            wire.close_all(fds)
        await ending
        cage.close()
