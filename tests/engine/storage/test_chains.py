"""Snapshots of sandboxes from snapshots, forks of forks: stacks stay short and lose nothing."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from pathlib import Path

import pytest

from sbx_jupyter.engine.engine import Engine
from sbx_jupyter.engine.state.rows import BuildRow, MergeRow, SandboxRow
from sbx_jupyter.engine.storage.layer_stacks import TOO_MANY, choose_run, find_run, shorten
from tests.engine.conftest import MakeEngine
from tests.engine.living import create, run
from tests.waiting import async_until

pytestmark = pytest.mark.long

GENERATIONS = 45


def depth(engine: Engine, row: SandboxRow | BuildRow) -> int:
    """The layers that what starts from a row now has."""
    return len(shorten(row.layers, engine.store.merges))


async def test_each_generation_of_snapshots_keeps_what_those_before_wrote(engine: Engine):
    row = await create(engine)
    for number in range(GENERATIONS):
        script = f"echo {number} > ~/f{number}; echo {number} > ~/last; rm -f ~/f{number - 7}"
        await run(engine, row.sandbox_id, script)
        snapshot = await engine.snapshots.create(row.sandbox_id, "chain")
        before, row = row, await create(engine, templateID=snapshot.snapshot_id)
        await engine.sandboxes.kill(before.sandbox_id)

    shown = await run(engine, row.sandbox_id, "cat ~/last; ls ~ | grep -c '^f'; cat ~/f40")

    assert shown.split() == [str(GENERATIONS - 1), "7", "40"]
    await async_until(lambda: max(depth(engine, b) for b in engine.store.builds) < TOO_MANY)


async def test_forks_of_forks_keep_what_those_before_wrote(engine: Engine, data_dir: Path):
    row = await create(engine)
    for number in range(GENERATIONS):
        await run(engine, row.sandbox_id, f"echo {number} >> ~/file")
        (fork,) = await engine.forks.create(row.sandbox_id, timeout=600)
        assert isinstance(fork, SandboxRow)
        await engine.sandboxes.kill(row.sandbox_id)
        row = fork

    assert await run(engine, row.sandbox_id, "wc -l < ~/file") == str(GENERATIONS)
    await async_until(lambda: depth(engine, row) < TOO_MANY)
    await engine.sandboxes.kill(row.sandbox_id)
    await async_until(lambda: os.listdir(data_dir / "layers") == [])
    assert list(engine.store.merges) == []


async def test_a_sandbox_paused_on_disk_comes_back_on_the_merged_layers(make_engine: MakeEngine):
    engine = await make_engine()
    row = await create(engine)
    for number in range(TOO_MANY + 2):
        await run(engine, row.sandbox_id, f"echo {number} > ~/f{number}; rm -f ~/f{number - 1}")
        (fork,) = await engine.forks.create(row.sandbox_id, timeout=600)
        assert isinstance(fork, SandboxRow)
        await engine.sandboxes.kill(row.sandbox_id)
        row = fork
    await run(engine, row.sandbox_id, "echo mine > ~/mine; rm ~/f21")
    await engine.sandboxes.pause(row.sandbox_id, memory=False)
    await engine.stop(kill_sandboxes=True)
    engine = await make_engine()
    await async_until(lambda: depth(engine, row) < TOO_MANY)

    await engine.sandboxes.connect(row.sandbox_id, 600)

    assert len(engine.sandboxes.get(row.sandbox_id).layers) < TOO_MANY
    assert await run(engine, row.sandbox_id, "ls ~ | xargs") == "mine"
    await engine.snapshots.create(row.sandbox_id, "later")
    copy = await create(engine, templateID="later")
    assert await run(engine, copy.sandbox_id, "ls ~ | xargs; cat ~/mine") == "mine\nmine"


async def test_layers_that_lie_under_a_sandbox_that_starts_are_not_removed(engine: Engine):
    source = await create(engine)
    await run(engine, source.sandbox_id, "echo kept > ~/file")
    snapshot = await engine.snapshots.create(source.sandbox_id, "short")

    creating = asyncio.create_task(create(engine, templateID=snapshot.snapshot_id))
    await asyncio.sleep(0)  # it has found the template, and nothing names its sandbox yet
    await engine.templates.builder.remove("short")
    row = await creating

    assert await run(engine, row.sandbox_id, "cat ~/file") == "kept"


async def test_forks_survive_the_end_of_their_source(engine: Engine):
    source = await create(engine)
    await run(engine, source.sandbox_id, "echo kept > ~/file")
    (first,) = await engine.forks.create(source.sandbox_id, timeout=600)
    assert isinstance(first, SandboxRow)

    forking = asyncio.create_task(engine.forks.create(first.sandbox_id, timeout=600, count=3))
    await asyncio.sleep(0)
    await asyncio.gather(
        engine.sandboxes.kill(source.sandbox_id), engine.sandboxes.kill(first.sandbox_id)
    )
    forks = await forking

    for fork in forks:
        assert isinstance(fork, SandboxRow)
        assert await run(engine, fork.sandbox_id, "cat ~/file") == "kept"


def test_a_byte_is_copied_no_more_often_than_the_logarithm_of_the_layers_says():
    stack: tuple[str, ...] = ("base",)
    sizes = {"base": 1 << 40}
    copied = 0
    for number in range(5000):
        name = f"l{number}"
        sizes[name] = 10 << 20
        stack = (name, *stack)
        if len(stack) >= TOO_MANY:
            merged = choose_run(stack, [sizes[each] for each in stack])
            total = sum(sizes[each] for each in merged)
            copied += total
            sizes[f"m{number}"] = total
            stack = (f"m{number}", *stack[len(merged) :])
        assert len(stack) < TOO_MANY

    assert "base" in stack
    assert copied < 14 * 5000 * (10 << 20)


@pytest.mark.parametrize("seed", range(20))
def test_a_stack_is_shortened_to_the_same_however_it_was_merged(seed: int):
    """Each merge stands for names; taken apart again, the names are those of before."""
    chance = random.Random(seed)
    stack = tuple(f"l{number}" for number in range(60))
    contents: dict[str, tuple[str, ...]] = {name: (name,) for name in stack}
    merges: list[MergeRow] = []
    short = stack
    for number in itertools.count():
        if len(short) < 5:
            break
        start = chance.randrange(len(short) - 2)
        count = chance.randrange(2, len(short) - start)
        merge = MergeRow(key=f"m{number}", layers=short[start : start + count])
        contents[merge.key] = tuple(x for name in merge.layers for x in contents[name])
        merges.append(merge)
        short = shorten(stack, merges)
        assert tuple(x for name in short for x in contents[name]) == stack
        assert shorten(short, merges) == short


def test_a_run_is_found_where_it_is_whole():
    assert find_run(("a", "b", "a", "b", "c"), ("a", "b", "c")) == 2
    assert find_run(("a", "b"), ("a", "b", "c")) == -1
    assert find_run(("a", "b"), ("c",)) == -1
