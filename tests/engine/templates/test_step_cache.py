"""The cache of build steps is bounded by number and by bytes, and keeps what is in use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sbx_jupyter.engine.engine import Engine
from sbx_jupyter.engine.templates.builds.step_state import StepState, step_key
from sbx_jupyter.protocol.templates import BuildStart, Step, TemplateRequest
from tests.engine.conftest import MakeEngine
from tests.engine.living import create, run
from tests.waiting import async_until

if TYPE_CHECKING:
    from sbx_jupyter.engine.state.rows import BuildRow

MIB = 1 << 20


async def build(engine: Engine, name: str, *commands: str) -> BuildRow:
    builder = engine.templates.builder
    asked = await builder.request(TemplateRequest(name=name))
    steps = [Step(type="RUN", args=[command, "root"]) for command in commands]
    start = BuildStart(from_template="base", steps=steps)
    await builder.start(asked.template_id, asked.build_id, start)

    def row() -> Any:
        return engine.store.builds.get(asked.build_id)

    await async_until(lambda: row().status in ("ready", "error"), timeout=60)
    assert row().status == "ready", row().reason
    return row()


def fill(megabytes: int, name: str) -> str:
    return f"head -c {megabytes}M /dev/urandom > /opt/{name}"


def kept(engine: Engine) -> int:
    """What the remembered steps have on the disk that nothing else has."""
    others = {
        name for row in (*engine.store.builds, *engine.store.sandboxes) for name in row.layers
    }
    names = {name for row in engine.store.steps for name in (*row.layers, *row.below)} - others
    folder = engine.config.data_dir
    return sum(
        path.lstat().st_size
        for name in names
        for path in Path(folder, name).rglob("*")
        if path.is_file() and not path.is_symlink()
    )


async def test_the_steps_unused_for_longest_make_room(make_engine: MakeEngine) -> None:
    engine = await make_engine(max_step_cache_bytes=25 * MIB)
    for name in ("a", "b", "c"):
        await build(engine, name, fill(10, name))
        await engine.templates.builder.remove(name)

    await async_until(lambda: kept(engine) <= 25 * MIB)

    assert kept(engine) >= 20 * MIB
    before = {row.key for row in engine.store.steps}
    await build(engine, "c", fill(10, "c"))  # from the cache: nothing new
    assert {row.key for row in engine.store.steps} == before
    await engine.templates.builder.remove("c")


async def test_what_a_template_or_a_sandbox_stands_on_costs_nothing(
    make_engine: MakeEngine,
) -> None:
    engine = await make_engine(max_step_cache_bytes=MIB)
    await build(engine, "used", fill(5, "used"))
    row = await create(engine, templateID="used")
    await build(engine, "other", fill(5, "other"))

    await async_until(lambda: len(engine.store.steps) >= 2)
    assert kept(engine) <= MIB
    assert await run(engine, row.sandbox_id, "stat -c %s /opt/used") == str(5 * MIB)
    assert {step.key for step in engine.store.steps}, "it is remembered: it costs nothing"
    await engine.templates.builder.remove("other")
    await engine.sandboxes.kill(row.sandbox_id)
    await engine.templates.builder.remove("used")


async def test_a_smaller_cache_is_trimmed_at_the_next_start(
    make_engine: MakeEngine,
    data_dir: Path,
) -> None:
    engine = await make_engine()
    for name in ("a", "b"):
        await build(engine, name, fill(3, name), f"echo {name} > /opt/more")
        await engine.templates.builder.remove(name)
    await async_until(lambda: len(engine.store.steps) >= 4)
    await engine.stop(kill_sandboxes=True)

    engine = await make_engine(max_cached_steps=0)

    assert list(engine.store.steps) == []
    await async_until(lambda: os.listdir(data_dir / "layers") == [])


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_no_more_steps_are_remembered_than_configured(
    make_engine: MakeEngine,
    most: int,
) -> None:
    engine = await make_engine(max_cached_steps=most)
    await build(engine, "many", *(f"echo {number} > /opt/f" for number in range(4)))

    await async_until(lambda: len(engine.store.steps) <= most)
    assert len(engine.store.steps) == most
    assert min(len(row.below) for row in engine.store.steps) == 0, "the first ones lead to others"
    await engine.templates.builder.remove("many")


def test_owners_share_no_steps() -> None:
    step = Step(type="RUN", args=["make", "root"])
    keys = {
        step_key("stock", ("layers/a",), step, StepState(), owner=owner)
        for owner in ("", "alice", "bob")
    }

    assert len(keys) == 3
