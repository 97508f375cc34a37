"""A cancelled call cleans up, whoever cancels it: asyncio, or a scope of anyio."""

from __future__ import annotations

import asyncio
import contextlib

import anyio
import pytest

from sbx_jupyter.client import AsyncSandbox
from tests.waiting import async_until


async def by_task(work, begun):
    """Cancel the task, as asyncio's own servers do."""
    task = asyncio.create_task(work)
    await begun()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def by_scope(work, begun):
    """Cancel the scope around the call, as servers built on anyio do."""
    async with anyio.create_task_group() as group:

        async def call():
            await work

        group.start_soon(call)
        await begun()
        group.cancel_scope.cancel()


async def by_timeout(work, begun):
    """Cancel by a scope with a deadline in the same task."""
    waiting = asyncio.ensure_future(begun())
    with anyio.CancelScope() as scope:
        waiting.add_done_callback(lambda _: scope.cancel())
        await work
    await waiting


WAYS = pytest.mark.parametrize("cancel", [by_task, by_scope, by_timeout])


@pytest.fixture
def running(sandbox):
    """``await running("sleep 4711")``: whether a command with these words runs."""

    async def look(words):
        listed = await sandbox.commands.run(f"pgrep -fx '{words}'")
        return listed.stdout.split()

    return look


@WAYS
async def test_a_cancelled_command_is_killed(sandbox, running, cancel):
    async def begun():
        await async_until(lambda: running("sleep 4711"))

    await cancel(sandbox.commands.run("exec sleep 4711", timeout=None), begun)

    async def ended():
        return not await running("sleep 4711")

    await async_until(ended)


@WAYS
async def test_a_cancelled_command_gives_its_connection_back(sandbox, running, cancel):
    async def begun():
        await async_until(lambda: running("sleep 4712"))

    await cancel(sandbox.commands.run("exec sleep 4712", timeout=None), begun)

    [client] = sandbox.platform.transport._clients.values()
    pool = client._transport._pool
    await async_until(lambda: not [c for c in pool.connections if not c.is_idle()])


@WAYS
async def test_a_cancelled_block_kills_its_sandbox(platform, cancel):
    made = []

    async def work():
        async with await AsyncSandbox.create(platform=platform, timeout=600) as created:
            made.append(created.sandbox_id)
            await asyncio.Event().wait()

    async def begun():
        await async_until(lambda: made)

    await cancel(work(), begun)

    listed = [each.sandbox_id async for each in platform.list()]
    assert made[0] not in listed


@pytest.fixture
def delayed(sandbox, monkeypatch):
    """``begun`` returns when an answer of the engine is on its way, which is held up until then.

    A cancellation always meets a request that the engine has carried out.
    """
    transport = sandbox.platform.transport
    really_open = transport.open
    has_answer = asyncio.Event()

    async def open_slowly(method, url, **options):
        answer = await really_open(method, url, **options)
        if url.endswith(tuple(slow)):
            has_answer.set()
            await asyncio.sleep(0.2)  # the cancellation comes now
        return answer

    def begin(ending):
        slow.append(ending)
        return has_answer.wait

    slow = []
    monkeypatch.setattr(transport, "open", open_slowly)
    return begin


@pytest.mark.parametrize("cancel", [by_task, by_scope])
async def test_a_command_is_killed_whose_start_was_cancelled(sandbox, running, cancel, delayed):
    starting = sandbox.commands.run("exec sleep 4713", background=True, timeout=None)

    await cancel(starting, delayed("Process/Start"))

    async def ended():
        return not await running("sleep 4713")

    await async_until(ended)


@pytest.mark.parametrize("cancel", [by_task, by_scope])
async def test_a_terminal_is_ended_whose_start_was_cancelled(sandbox, running, cancel, delayed):
    starting = sandbox.pty.create(command=("/bin/sleep", "4714"))

    await cancel(starting, delayed("Process/Start"))

    async def ended():
        return not await running("/bin/sleep 4714")

    await async_until(ended)


@pytest.mark.parametrize("cancel", [by_task, by_scope])
async def test_a_sandbox_is_ended_whose_creation_was_cancelled(sandbox, platform, cancel, delayed):
    before = {each.sandbox_id async for each in platform.list()}
    creating = AsyncSandbox.create(platform=sandbox.platform, timeout=60)

    await cancel(creating, delayed("/v2/sandboxes"))

    assert {each.sandbox_id async for each in platform.list()} <= before


@pytest.mark.parametrize("cancel", [by_task, by_scope])
async def test_copies_are_ended_whose_fork_was_cancelled(sandbox, platform, cancel, delayed):
    before = {each.sandbox_id async for each in platform.list()}

    await cancel(sandbox.fork(2, timeout=60), delayed("/fork"))

    assert {each.sandbox_id async for each in platform.list()} <= before
