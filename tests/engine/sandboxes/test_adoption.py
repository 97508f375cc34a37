"""A starting engine takes up several sandboxes at a time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sbx_jupyter.engine.context import DEFAULT_LIMITS
from sbx_jupyter.engine.sandboxes import recovery
from sbx_jupyter.engine.sandboxes.placement import Placed
from sbx_jupyter.engine.sandboxes.recovery import Recovery
from sbx_jupyter.engine.sandboxes.slots import Slot, Slots
from sbx_jupyter.errors import NoSpaceError
from tests.engine.rows import sandbox_row
from tests.waiting import async_until

IDS = [f"i{number:04}" for number in range(100)]


class Agents:
    """Stands for the supervisor, which waits for the agent of each sandbox that it thaws."""

    def __init__(self) -> None:
        self.may_answer = {name: asyncio.Event() for name in IDS}
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.cancelled: list[str] = []
        self.error: Exception | None = None
        """What the next one to be asked meets."""

    async def thaw(self, slot: Slot) -> None:
        self.asked.append(slot.sandbox_id)
        error, self.error = self.error, None
        try:
            await self.may_answer[slot.sandbox_id].wait()
        except asyncio.CancelledError:
            self.cancelled.append(slot.sandbox_id)
            raise
        if error is not None:
            raise error
        self.answered.append(slot.sandbox_id)

    def watch(self, slot: Slot) -> None:
        pass

    async def keep_files(self, slot: Slot, why: str) -> None:
        slot.placed = None
        raise NoSpaceError("no row can be stored")

    def let_answer(self, names: list[str]) -> None:
        for name in names:
            self.may_answer[name].set()


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest.fixture
def slots() -> Slots:
    return Slots(1000)


@pytest.fixture
def recover(agents: Agents, slots: Slots) -> Recovery:
    async def adopt(row: object, limits: object) -> Placed:
        return cast("Placed", object())

    async def read_logs(since: object, most: int) -> list[object]:
        return []

    context: Any = SimpleNamespace(
        store=SimpleNamespace(
            sandboxes=[sandbox_row(name, boot_id="boot") for name in IDS], read_logs=read_logs
        ),
        history=SimpleNamespace(load=lambda names: None),
        placement=SimpleNamespace(adopt=adopt),
        config=SimpleNamespace(default_limits=DEFAULT_LIMITS),
        slots=slots,
        boot_id="boot",
    )
    return Recovery(context, cast("Any", agents), cast("Any", None))


async def test_some_are_taken_up_at_once_and_their_order_stays(
    recover: Recovery, agents: Agents, slots: Slots
):
    most = recovery._AT_ONCE
    running = asyncio.create_task(recover.run())
    await async_until(lambda: len(agents.asked) == most)
    for _ in range(20):
        await asyncio.sleep(0)
    assert agents.asked == IDS[:most]

    agents.let_answer(IDS[::-1])

    assert await running == set(IDS)
    assert [slot.sandbox_id for slot in slots] == IDS


async def test_one_that_does_not_answer_delays_no_other(recover: Recovery, agents: Agents):
    running = asyncio.create_task(recover.run())
    agents.let_answer(IDS[1:])

    await async_until(lambda: set(agents.answered) == set(IDS[1:]))
    assert not running.done()
    agents.let_answer(IDS[:1])
    assert await running == set(IDS)


async def test_a_failure_is_told_as_it_is_and_ends_the_rest(recover: Recovery, agents: Agents):
    agents.error = NoSpaceError("the agent met a full disk")
    running = asyncio.create_task(recover.run())
    await async_until(lambda: len(agents.asked) == recovery._AT_ONCE)

    agents.let_answer(IDS[:1])

    with pytest.raises(NoSpaceError, match="no row can be stored"):
        await running
    assert agents.cancelled == IDS[1 : recovery._AT_ONCE]
