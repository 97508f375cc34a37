"""Before the processes of a sandbox stop, no file is left half replaced."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.engine.live import files
from sbx_jupyter.engine.live.files import Files
from sbx_jupyter.isolation.channel import Reply
from tests.waiting import async_until

CREATED = b'{"path": "/f", "name": "f"%s}'


class Agent:
    """Gives drafts at once; it puts them into their file when it may."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.may_finish = asyncio.Event()
        self.asked = 0
        self.finished = 0

    async def call(
        self, op: str, *, fds: Sequence[int] = (), timeout: float = 30, **fields: Any
    ) -> Reply:
        if fields.get("draft"):
            draft = os.open(self._folder, os.O_TMPFILE | os.O_RDWR)
            return Reply(CREATED % b', "is_draft": true', [draft])
        self.asked += 1
        await self.may_finish.wait()
        self.finished += 1
        return Reply(CREATED % b"", [])


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


async def upload(sandbox_files: Files) -> None:
    async with await sandbox_files.open_write("/f") as file:
        await file.write(b"content")


async def stop(sandbox_files: Files, stopped: asyncio.Event, may_go_on: asyncio.Event) -> None:
    async with sandbox_files.settled():
        stopped.set()
        await may_go_on.wait()


async def test_the_processes_stop_after_what_is_under_way_and_before_what_is_new(agent: Agent):
    sandbox_files = Files(agent)
    stopped, may_go_on = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(upload(sandbox_files))
    await async_until(lambda: agent.asked == 1)
    stopping = asyncio.create_task(stop(sandbox_files, stopped, may_go_on))
    second = asyncio.create_task(upload(sandbox_files))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not stopped.is_set()

    agent.may_finish.set()
    await first
    await stopped.wait()
    assert agent.finished == agent.asked == 1
    may_go_on.set()
    await asyncio.gather(stopping, second)
    assert agent.finished == 2


async def test_what_a_caller_gave_up_is_still_under_way(agent: Agent):
    sandbox_files = Files(agent)
    given_up = asyncio.create_task(upload(sandbox_files))
    await async_until(lambda: agent.asked == 1)
    given_up.cancel()
    await asyncio.wait({given_up})
    stopped, may_go_on = asyncio.Event(), asyncio.Event()
    may_go_on.set()
    stopping = asyncio.create_task(stop(sandbox_files, stopped, may_go_on))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not stopped.is_set()

    agent.may_finish.set()
    await stopping
    assert agent.finished == 1


async def test_an_agent_that_does_not_answer_delays_no_stop_for_long(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files, "_SETTLE_TIMEOUT", 0.01)
    sandbox_files = Files(agent)
    first = asyncio.create_task(upload(sandbox_files))
    await async_until(lambda: agent.asked == 1)

    async with sandbox_files.settled():
        assert not first.done()
    agent.may_finish.set()
    await first
