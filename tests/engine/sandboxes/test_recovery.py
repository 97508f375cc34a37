"""What an engine finds when it starts: nothing is lost that need not be."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import pytest

from sbx_jupyter.engine.engine import Engine, EngineConfig
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state.database import Batch, Database
from sbx_jupyter.engine.state.rows import SandboxRow
from sbx_jupyter.errors import DataLossError, NotFoundError, UnavailableError
from sbx_jupyter.protocol.runtime import ProcessConfig, StartRequest
from tests.engine.conftest import MakeEngine
from tests.engine.living import create, is_known, messages, run, start
from tests.waiting import async_until


def rewrite(data_dir: Path, sandbox_id: str, **fields: object) -> None:
    """Change a stored row, as another engine would have left it."""
    database = Database(data_dir / "engine.db")
    database.open(beside="")
    (row,) = [row for _, key, row in database.rows() if key == sandbox_id]
    changed = json.loads(msgspec.json.encode(row)) | fields
    database.write([Batch().put(msgspec.convert(changed, type=SandboxRow))])
    database.close()


async def test_running_sandboxes_go_on_without_an_engine(make_engine: MakeEngine):
    engine = await make_engine()
    row = await create(engine, metadata={"a": "b"})
    pid = await start(engine, row.sandbox_id, "exec sleep 1000")

    await engine.stop(kill_sandboxes=False)
    engine = await make_engine()

    found = engine.sandboxes.get(row.sandbox_id)
    assert (found.state, found.end_at, found.access_token) == (
        State.RUNNING,
        row.end_at,
        row.access_token,
    )
    assert await run(engine, row.sandbox_id, f"ps -o comm= -p {pid}") == "sleep"
    await engine.sandboxes.kill(row.sandbox_id)


async def test_sandboxes_with_frozen_memory_resume_under_another_engine(make_engine: MakeEngine):
    engine = await make_engine()
    row = await create(engine)
    pid = await start(engine, row.sandbox_id, "exec sleep 1000")
    await engine.sandboxes.pause(row.sandbox_id)

    await engine.stop(kill_sandboxes=False)
    engine = await make_engine()

    assert engine.sandboxes.get(row.sandbox_id).to_detail().pause_mode == "full"
    await engine.sandboxes.connect(row.sandbox_id, 100)
    assert await run(engine, row.sandbox_id, f"ps -o comm= -p {pid}") == "sleep"


async def test_a_stop_ends_all_but_what_is_paused_on_disk(make_engine: MakeEngine):
    engine = await make_engine()
    running = await create(engine)
    frozen = await create(engine)
    await run(engine, frozen.sandbox_id, "echo kept > ~/file")
    await engine.sandboxes.pause(frozen.sandbox_id)
    pids = [
        slot.placed.cage.pid for slot in engine._running().context.slots if slot.placed is not None
    ]

    await engine.stop(kill_sandboxes=True)

    assert len(pids) == 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    engine = await make_engine()
    with pytest.raises(NotFoundError):
        engine.sandboxes.get(running.sandbox_id)
    assert engine.sandboxes.get(frozen.sandbox_id).to_detail().pause_mode == "filesystem"
    await engine.sandboxes.connect(frozen.sandbox_id, 100)
    assert await run(engine, frozen.sandbox_id, "cat ~/file") == "kept"


async def test_an_end_time_that_passed_meanwhile_is_kept(make_engine: MakeEngine):
    engine = await make_engine()
    killed = await create(engine, timeout=1)
    paused = await create(engine, timeout=1, autoPause=True)

    await engine.stop(kill_sandboxes=False)
    end_at = max(killed.end_at, paused.end_at).timestamp()
    await async_until(lambda: time.time() > end_at)
    engine = await make_engine()

    await async_until(lambda: not is_known(engine, killed.sandbox_id))
    await async_until(lambda: engine.sandboxes.get(paused.sandbox_id).state is State.PAUSED)
    assert messages(engine, killed.sandbox_id)[-1] == "Sandbox timed out and was killed"


async def test_a_sandbox_that_ended_meanwhile_keeps_its_files(make_engine: MakeEngine):
    engine = await make_engine()
    row = await create(engine)
    await run(engine, row.sandbox_id, "echo kept > ~/file")
    pid = (await engine.sandboxes.live(row.sandbox_id)).cage.pid

    await engine.stop(kill_sandboxes=False)
    os.kill(pid, signal.SIGKILL)
    engine = await make_engine()

    assert messages(engine, row.sandbox_id)[-1] == "Sandbox lost, its files are kept"
    await check_kept(engine, row.sandbox_id)


async def test_after_a_restart_of_the_machine_files_are_kept(
    make_engine: MakeEngine, data_dir: Path
):
    engine = await make_engine()
    running, frozen = await create(engine), await create(engine)
    for row in (running, frozen):
        await run(engine, row.sandbox_id, "echo kept > ~/file")
    await engine.sandboxes.pause(frozen.sandbox_id)
    pids = [slot.placed.cage.pid for slot in engine._running().context.slots if slot.placed]

    await engine.stop(kill_sandboxes=False)
    for row in (running, frozen):
        rewrite(data_dir, row.sandbox_id, boot_id="another boot")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    engine = await make_engine()

    for row in (running, frozen):
        assert engine.sandboxes.get(row.sandbox_id).to_detail().pause_mode == "filesystem"
        await engine.sandboxes.connect(row.sandbox_id, 100)
        assert await run(engine, row.sandbox_id, "cat ~/file") == "kept"
    assert "The machine restarted: the sandbox is paused, its files are kept" in messages(
        engine, running.sandbox_id
    )


async def test_a_pause_that_was_begun_is_finished(make_engine: MakeEngine, data_dir: Path):
    engine = await make_engine()
    row = await create(engine)
    await run(engine, row.sandbox_id, "echo kept > ~/file")

    await engine.stop(kill_sandboxes=False)
    rewrite(data_dir, row.sandbox_id, state="pausing")
    engine = await make_engine()

    assert engine.sandboxes.get(row.sandbox_id).state is State.PAUSED
    assert engine.sandboxes.get(row.sandbox_id).pause_mode == "filesystem"
    await engine.sandboxes.connect(row.sandbox_id, 100)
    assert await run(engine, row.sandbox_id, "cat ~/file") == "kept"


async def test_layers_that_no_row_names_are_removed(make_engine: MakeEngine, data_dir: Path):
    engine = await make_engine()
    await engine.stop(kill_sandboxes=False)
    (data_dir / "sandboxes" / f"i{'leftover':0<20}" / "upper" / "a").mkdir(parents=True)

    await make_engine()

    assert os.listdir(data_dir / "sandboxes") == []


async def test_the_log_is_kept_over_restarts(make_engine: MakeEngine):
    engine = await make_engine()
    row = await create(engine)
    await engine.sandboxes.kill(row.sandbox_id)

    await engine.stop(kill_sandboxes=True)
    engine = await make_engine()

    assert messages(engine, row.sandbox_id) == ["Sandbox started", "Sandbox killed"]


async def test_a_damaged_store_stops_the_start_and_frees_the_directory(data_dir: Path):
    data_dir.mkdir()
    (data_dir / "engine.db").write_bytes(b"damaged" * 1000)

    for _ in range(2):
        with pytest.raises(DataLossError, match=r"engine\.db"):
            await Engine(EngineConfig(data_dir)).start()


async def check_kept(engine: Engine, sandbox_id: str) -> None:
    """A lost sandbox is as one paused on disk: it can be resumed and killed."""
    detail = engine.sandboxes.get(sandbox_id).to_detail()
    assert (detail.state, detail.pause_mode) == ("paused", "filesystem")
    await engine.sandboxes.connect(sandbox_id, 100)
    assert await run(engine, sandbox_id, "cat ~/file") == "kept"
    await engine.sandboxes.kill(sandbox_id)
    assert not is_known(engine, sandbox_id)


@pytest.mark.parametrize("tier", ["auto", "none"])
async def test_a_sandbox_whose_agent_dies_keeps_its_files(make_engine: MakeEngine, tier: str):
    engine = await make_engine(isolation=tier)
    row = await create(engine)
    await run(engine, row.sandbox_id, "echo kept > ~/file")
    pid = (await engine.sandboxes.live(row.sandbox_id)).cage.pid

    os.kill(pid, signal.SIGKILL)

    slot = engine._running().context.slots.get(row.sandbox_id)
    assert slot is not None
    await async_until(lambda: slot.state is State.PAUSED)  # until then it is not shown
    with pytest.raises(NotFoundError, match="The sandbox was not found"):
        await engine.sandboxes.live(row.sandbox_id)
    last = engine.observations.logs(row.sandbox_id)[-1]
    assert (last.message, last.level) == ("Sandbox lost, its files are kept", "error")
    assert last.fields["reason"] == "the agent died"
    with pytest.raises(NotFoundError, match="it is paused"):
        await engine.snapshots.create(row.sandbox_id)
    await check_kept(engine, row.sandbox_id)


async def test_a_closed_channel_is_opened_again(engine: Engine, data_dir: Path):
    row = await create(engine)
    before = await engine.sandboxes.live(row.sandbox_id)
    request = StartRequest(process=ProcessConfig(cmd="sleep", args=["60"]), stdin=False)
    process = await before.processes.start(request)
    waiting = asyncio.ensure_future(anext(process.subscribe()))

    # The agent takes one engine at a time: for the first one the channel closes.
    folder = os.open(data_dir / "run" / row.sandbox_id, os.O_PATH | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.connect(f"/proc/self/fd/{folder}/agent.sock")  # however long the path is
        await async_until(before.closed.is_set)
    os.close(folder)
    with pytest.raises(UnavailableError):
        await waiting

    await async_until(lambda: engine.sandboxes.find_live(row.sandbox_id) not in (None, before))
    after = await engine.sandboxes.live(row.sandbox_id)
    assert [found.pid for found in after.processes.list()] == [process.pid]
    assert await run(engine, row.sandbox_id, "echo alive") == "alive"
    assert engine.sandboxes.get(row.sandbox_id).state is State.RUNNING


async def test_an_engine_that_is_killed_is_taken_over(make_engine: MakeEngine, data_dir: Path):
    program = textwrap.dedent(
        f"""
        import asyncio
        from pathlib import Path
        from sbx_jupyter.engine.engine import Engine, EngineConfig
        from tests.engine.living import create, run, start

        async def main():
            engine = Engine(EngineConfig(Path({str(data_dir)!r}), pool_size=2))
            await engine.start()
            row = await create(engine)
            await run(engine, row.sandbox_id, "echo kept > ~/file")
            pid = await start(engine, row.sandbox_id, "exec sleep 1000")
            await engine.sandboxes.pool.wait_filled()
            ready = [item.placed.cage.pid for item in engine._running().pool._ready]
            print(row.sandbox_id, pid, *ready, flush=True)
            await asyncio.sleep(1000)

        asyncio.run(main())
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    sandbox_id, pid, *ready = (await asyncio.to_thread(process.stdout.readline)).split()
    process.kill()
    process.stdout.close()
    process.wait()

    engine = await make_engine()

    assert await run(engine, sandbox_id, f"cat ~/file; ps -o comm= -p {pid}") == "kept\nsleep"
    assert len(ready) == 2
    await async_until(lambda: not any(os.path.exists(f"/proc/{item}") for item in ready))
    assert [name.partition(".")[0] for name in os.listdir(data_dir / "sandboxes")] == [sandbox_id]
    assert os.listdir(data_dir / "run") == [sandbox_id]
