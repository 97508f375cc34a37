"""Many changes at once, in any order: every sandbox ends in a state that is true."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path

import msgspec
import pytest

from sbx_jupyter.engine.engine import Engine, WakeCredential
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state.rows import SandboxRow
from sbx_jupyter.errors import InternalError, SbxError
from tests.engine.conftest import MakeEngine
from tests.engine.living import create, names_of_layers, run
from tests.waiting import async_until


async def disturb(engine: Engine, sandbox_id: str, choice: random.Random) -> None:
    """One change; errors of the interface are as good as success, others are not."""
    wake = WakeCredential(8000)
    works = (
        lambda: engine.sandboxes.pause(sandbox_id, choice.random() < 0.5),
        lambda: engine.sandboxes.pause(sandbox_id, True),
        lambda: engine.sandboxes.connect(sandbox_id, 100),
        lambda: engine.sandboxes.connect(sandbox_id, 100, memory=False),
        lambda: engine.sandboxes.resume(sandbox_id, 100),
        lambda: engine.sandboxes.live(sandbox_id, wake=wake),
        lambda: engine.sandboxes.set_timeout(sandbox_id, 100),
        lambda: engine.snapshots.create(sandbox_id),
        lambda: engine.sandboxes.refresh(sandbox_id, 100),
        lambda: run(engine, sandbox_id, "echo x >> ~/log"),
    )
    await asyncio.sleep(choice.random() * 0.5)
    task = asyncio.ensure_future(choice.choice(works)())
    if choice.random() < 0.1:
        await asyncio.sleep(choice.random() * 0.05)
        task.cancel()
    try:
        await task
    except InternalError:
        raise
    except (SbxError, asyncio.CancelledError):
        return


@pytest.mark.timeout(240)  # forty changes, many of which copy or freeze, on a busy machine
@pytest.mark.parametrize("seed", [1, 2])
async def test_changes_in_any_order_leave_true_states(
    make_engine: MakeEngine, data_dir: Path, seed: int
):
    choice = random.Random(seed)
    engine = await make_engine()
    rows = [await create(engine, autoPause=True, autoResume={"enabled": True}) for _ in range(3)]
    for row in rows:
        await run(engine, row.sandbox_id, "echo kept > ~/file")

    await asyncio.gather(
        *(disturb(engine, choice.choice(rows[:2]).sandbox_id, choice) for _ in range(40)),
        engine.sandboxes.kill(rows[2].sandbox_id),
    )

    # A change whose caller was cancelled goes on.
    await async_until(lambda: not any(row.state.is_transition for row in engine.sandboxes.rows()))

    left = {row.sandbox_id: row for row in engine.sandboxes.rows()}
    assert set(left) == {row.sandbox_id for row in rows[:2]}
    for sandbox_id, row in left.items():
        assert row.state in (State.RUNNING, State.PAUSED)
        assert stored(data_dir, sandbox_id) == row
        await engine.sandboxes.connect(sandbox_id, 100)
        assert await run(engine, sandbox_id, "cat ~/file") == "kept"
    await async_until(lambda: names_of_layers(data_dir) == set(left))


def stored(data_dir: Path, sandbox_id: str) -> SandboxRow:
    """The row as another engine would read it."""
    connection = sqlite3.connect(data_dir / "engine.db")
    (record,) = connection.execute(
        "SELECT record FROM sandboxes WHERE key = ?", (sandbox_id,)
    ).fetchone()
    connection.close()
    return msgspec.json.decode(record, type=SandboxRow)
