"""Whose build is next."""

from __future__ import annotations

import asyncio

import pytest

from sbx_jupyter.engine.templates.builds.turns import BuildTurns


class Builds:
    """Builds that run until a test ends them; ``begun`` has their names in order."""

    def __init__(self, most: int) -> None:
        self.turns = BuildTurns(most)
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def add(self, *names: str) -> None:
        """Builds by their names, of which the first letter is the owner."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._run(name))
            await asyncio.sleep(0)

    async def end(self, name: str) -> None:
        assert name in self.begun, self.begun
        self._ends[name].set()
        await self._tasks[name]
        await asyncio.sleep(0)

    async def cancel(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await asyncio.gather(*(self._tasks[name] for name in names), return_exceptions=True)
        await asyncio.sleep(0)

    async def _run(self, name: str) -> None:
        async with self.turns.turn(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()


async def test_an_owner_with_many_builds_does_not_come_before_others() -> None:
    builds = Builds(2)
    await builds.add("a1", "a2", "a3", "a4", "b1", "b2", "c1")
    assert builds.begun == ["a1", "a2"]
    for name in ("a1", "a2", "b1", "c1", "a3"):
        await builds.end(name)
    assert builds.begun == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_builds_of_one_owner_run_in_order_and_all_at_once_that_may() -> None:
    builds = Builds(3)
    await builds.add("a1", "a2", "a3", "a4", "a5")
    assert builds.begun == ["a1", "a2", "a3"]
    await builds.end("a2")
    await builds.end("a1")
    assert builds.begun == ["a1", "a2", "a3", "a4", "a5"]


@pytest.mark.parametrize(
    ("cancelled", "begun"),
    [
        (("a1",), ["a1", "b1", "c1", "a2"]),
        (("a2",), ["a1", "b1", "c1"]),
        (("a1", "a2"), ["a1", "b1", "c1"]),
        (("b1", "a1"), ["a1", "c1", "a2"]),
    ],
)
async def test_a_cancelled_build_takes_no_turn_and_gives_its_own_back(
    cancelled: tuple[str, ...], begun: list[str]
) -> None:
    builds = Builds(1)
    await builds.add("a1", "a2", "b1", "c1")
    await builds.cancel(*cancelled)
    for name in begun:
        if name not in cancelled:
            await builds.end(name)
    await builds.add("d1")
    assert builds.begun == [*begun, "d1"]
