"""Removals that fail, as they do when one zygote after the other is killed, are taken up again."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from sbx_jupyter.engine import unfinished_removals
from sbx_jupyter.engine.engine import Engine
from sbx_jupyter.engine.unfinished_removals import UnfinishedRemovals
from sbx_jupyter.errors import UnavailableError
from tests.engine.living import create, names_of_layers
from tests.waiting import PATIENCE, async_until


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unfinished_removals, "_FIRST_DELAY", 0.01)
    monkeypatch.setattr(unfinished_removals, "_LONGEST_DELAY", 0.01)


class Zygote:
    """Counts the removals that it fails, as long as it does."""

    is_killed = True
    failures = 0


@pytest.fixture
def zygote(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Zygote:
    trees, zygote = engine.fence.tree_operations, Zygote()
    remove = trees.remove

    async def fail_or_remove(directory: Path) -> None:
        if zygote.is_killed:
            zygote.failures += 1
            raise UnavailableError("the zygote was killed")
        await remove(directory)

    monkeypatch.setattr(trees, "remove", fail_or_remove)
    return zygote


async def test_what_was_left_of_a_sandbox_is_removed_later(
    engine: Engine, data_dir: Path, zygote: Zygote
):
    row = await create(engine)

    await engine.sandboxes.kill(row.sandbox_id)
    await async_until(lambda: zygote.failures >= 3)
    assert names_of_layers(data_dir) == {row.sandbox_id}
    zygote.is_killed = False

    await async_until(lambda: not names_of_layers(data_dir))
    await async_until(lambda: not (data_dir / "run" / row.sandbox_id).exists())


async def test_a_layer_is_removed_later_unless_something_uses_it_again(
    engine: Engine, data_dir: Path, zygote: Zygote
):
    layers = engine._running().context.layers
    async with layers.reserve() as first, layers.reserve() as second:
        for name in (first, second):
            (data_dir / name).mkdir()
    await async_until(lambda: zygote.failures >= 4)

    with layers.hold((second,)):
        zygote.is_killed = False
        await async_until(lambda: not (data_dir / first).exists())
        assert (data_dir / second).exists()
    assert not layers.is_in_use((second,))


async def test_a_layer_that_was_held_when_its_last_row_went_is_removed_afterwards(
    engine: Engine, data_dir: Path
):
    layers = engine._running().context.layers
    name = f"layers/{uuid.uuid4()}"
    (data_dir / name).mkdir()

    with layers.hold((name,)):
        with layers.hold((name,)):
            assert await layers.collect((name,)) == 0
        assert (data_dir / name).exists()

    await async_until(lambda: not (data_dir / name).exists())


async def test_a_layer_that_appears_after_its_maker_was_killed_is_removed(
    engine: Engine, data_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    trees, removed = engine.fence.tree_operations, list[Path]()
    remove = trees.remove

    async def appear_and_remove(directory: Path) -> None:
        directory.mkdir()  # the last that the former maker did; its successor removes it
        removed.append(directory)
        await remove(directory)

    monkeypatch.setattr(trees, "remove", appear_and_remove)
    reserved: list[Path] = []

    async def copy() -> None:
        async with engine._running().context.layers.reserve() as name:
            reserved.append(data_dir / name)
            raise UnavailableError("the helper was killed")

    with pytest.raises(UnavailableError):
        await copy()

    assert removed == reserved
    assert not reserved[0].exists()


async def test_a_removal_without_success_is_given_up(caplog: pytest.LogCaptureFixture):
    left, attempts = UnfinishedRemovals(), list[int]()

    async def fail() -> None:
        attempts.append(1)
        raise OSError("no")

    left.add("it", fail)
    left.add("it", fail)
    await async_until(lambda: "before the next start" in caplog.text)

    assert len(attempts) == 20
    await left.aclose()


async def test_the_end_of_the_engine_cancels_what_is_left():
    left, begun = UnfinishedRemovals(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    left.add("it", hang)
    await begun.wait()
    async with asyncio.timeout(PATIENCE):
        await left.aclose()
    left.add("other", hang)
    assert left._task is not None
    assert left._task.cancelled()
