"""Lives a whole life of sandboxes in one tier, without root; prints what it saw as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from sbx_jupyter.engine.engine import Engine, EngineConfig
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state.rows import SandboxRow
from tests.engine.living import create, run, start
from tests.waiting import async_until


async def main(data_dir: Path, tier: str) -> None:
    config = EngineConfig(data_dir, isolation=tier, pool_size=1)
    engine = Engine(config)
    await engine.start()
    seen: dict[str, object] = {"tier": engine.tier, "freezer": engine.report.freezer}
    row = await create(engine, network={"denyOut": ["9.9.9.9"]})
    seen["network"] = engine.network
    seen["said"] = [entry.message for entry in engine.observations.logs(row.sandbox_id)]
    await run(engine, row.sandbox_id, "echo kept > ~/file")
    await start(engine, row.sandbox_id, "while sleep 0.05; do echo x >> ~/ticks; done")
    await async_until(lambda: run(engine, row.sandbox_id, "cat ~/ticks 2>/dev/null"))
    seen["adjustment"] = await run(engine, row.sandbox_id, "cat /proc/self/oom_score_adj")
    await engine.sandboxes.pause(row.sandbox_id)
    await engine.stop(kill_sandboxes=False)
    engine = Engine(config)
    await engine.start()
    seen["paused"] = engine.sandboxes.get(row.sandbox_id).pause_mode
    await engine.sandboxes.connect(row.sandbox_id, 100)
    script = (
        "before=$(wc -l < ~/ticks); until [ $(wc -l < ~/ticks) -gt $before ]; do sleep 0.05; done;"
        " echo $before; wc -l < ~/ticks"
    )
    seen["ticks"] = (await run(engine, row.sandbox_id, script)).split()
    await engine.sandboxes.pause(row.sandbox_id, memory=False)
    await engine.sandboxes.connect(row.sandbox_id, 100)
    seen["file"] = await run(engine, row.sandbox_id, "cat ~/file")
    snapshot = await engine.snapshots.create(row.sandbox_id)
    copy = await create(engine, templateID=snapshot.snapshot_id)
    seen["snapshot"] = await run(engine, copy.sandbox_id, "cat ~/file")
    forks = await engine.forks.create(row.sandbox_id, count=2)
    seen["forks"] = sum(isinstance(fork, SandboxRow) for fork in forks)
    os.kill((await engine.sandboxes.live(copy.sandbox_id)).cage.pid, signal.SIGKILL)
    slot = engine._running().context.slots.get(copy.sandbox_id)
    assert slot is not None
    await async_until(lambda: slot.state is State.PAUSED)  # until then it is not shown
    seen["lost"] = engine.sandboxes.get(copy.sandbox_id).pause_mode
    await engine.sandboxes.connect(copy.sandbox_id, 100)
    seen["kept"] = await run(engine, copy.sandbox_id, "cat ~/file")
    await engine.stop(kill_sandboxes=True)
    seen["left"] = [path.name for path in (data_dir / "sandboxes").iterdir()]
    print(json.dumps(seen))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
