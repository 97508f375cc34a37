"""Pausing, resuming, waking and timing out: with real sandboxes."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import signal
import time

import pytest

from sbx_jupyter.engine.engine import Engine, SandboxFilter, WakeCredential
from sbx_jupyter.engine.live.subscriptions import DisconnectedError, Output
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.sandboxes.slots import Slot
from sbx_jupyter.engine.sandboxes.supervisor import Supervisor
from sbx_jupyter.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
)
from sbx_jupyter.protocol.platform import NetworkConfig
from sbx_jupyter.protocol.runtime import WatchDirRequest
from tests.engine.conftest import MakeEngine
from tests.engine.live.running import bash
from tests.engine.living import create, is_known, messages, run, start
from tests.waiting import Busyness, async_until

COUNTER = "i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.02; done"


async def count(engine: Engine, sandbox_id: str) -> int:
    return int(await run(engine, sandbox_id, "cat /tmp/count 2>/dev/null") or 0)


async def counts_on(engine: Engine, sandbox_id: str, seen: int) -> bool:
    return await count(engine, sandbox_id) > seen


async def test_a_pause_with_memory_stops_and_resumes_processes(engine: Engine):
    row = await create(engine)
    pid = await start(engine, row.sandbox_id, COUNTER)
    await async_until(lambda: count(engine, row.sandbox_id))

    await engine.sandboxes.pause(row.sandbox_id)
    paused = engine.sandboxes.get(row.sandbox_id).to_detail()
    host_pid = engine._running().context.slots.find(row.sandbox_id).placed.cage.pid  # type: ignore[union-attr]
    before = await asyncio.to_thread(_cpu_ticks_below, host_pid)
    await asyncio.sleep(0.4)  # twenty times as long as they sleep
    after = await asyncio.to_thread(_cpu_ticks_below, host_pid)
    resumed, was_resumed = await engine.sandboxes.connect(row.sandbox_id, 100)

    assert (paused.state, paused.pause_mode) == ("paused", "full")
    assert paused.started_at == row.started_at
    assert paused.end_at < row.end_at
    assert before == after
    assert was_resumed
    assert resumed.access_token == row.access_token
    assert await run(engine, row.sandbox_id, f"ps -o pid= -p {pid}") == str(pid)
    first = await count(engine, row.sandbox_id)
    await async_until(lambda: counts_on(engine, row.sandbox_id, first))
    assert messages(engine, row.sandbox_id) == [
        "Sandbox started",
        "Sandbox paused",
        "Sandbox resumed",
    ]


def _cpu_ticks_below(pid: int) -> int:
    """User and system time of all processes in the sandbox."""
    total, todo = 0, [pid]
    while todo:
        current = todo.pop()
        try:
            with open(f"/proc/{current}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            with open(f"/proc/{current}/task/{current}/children") as file:
                todo += map(int, file.read().split())
        except OSError:
            continue
        if current != pid:
            total += int(fields[11]) + int(fields[12])
    return total


async def test_a_pause_without_memory_keeps_files_only(engine: Engine):
    row = await create(engine)
    assert await run(engine, row.sandbox_id, "echo kept > ~/file; sudo rm /etc/shells") == ""
    await start(engine, row.sandbox_id, "exec sleep 1000")
    host_pid = (await engine.sandboxes.live(row.sandbox_id)).cage.pid

    await engine.sandboxes.pause(row.sandbox_id, memory=False)

    assert engine.sandboxes.get(row.sandbox_id).to_detail().pause_mode == "filesystem"
    assert not os.path.exists(f"/proc/{host_pid}")
    for _ in range(2):
        assert (await engine.sandboxes.connect(row.sandbox_id, 100))[1]
        script = "cat ~/file; ls /etc/shells; pgrep -x sleep; echo $E2B_SANDBOX_ID"
        assert (await run(engine, row.sandbox_id, script)).splitlines() == [
            "kept",
            row.sandbox_id,
            "ls: cannot access '/etc/shells': No such file or directory",
        ]
        await engine.sandboxes.pause(row.sandbox_id, memory=False)


async def test_a_reboot_on_connect_drops_the_memory(engine: Engine):
    row = await create(engine)
    await start(engine, row.sandbox_id, "exec sleep 1000")
    await run(engine, row.sandbox_id, "echo kept > ~/file")
    await engine.sandboxes.pause(row.sandbox_id)

    await engine.sandboxes.connect(row.sandbox_id, 100, memory=False)

    assert await run(engine, row.sandbox_id, "cat ~/file; pgrep -x sleep") == "kept"


async def test_a_paused_sandbox_refuses_what_needs_a_running_one(engine: Engine):
    row = await create(engine)
    await engine.sandboxes.pause(row.sandbox_id)

    with pytest.raises(FailedPreconditionError, match="is already paused"):
        await engine.sandboxes.pause(row.sandbox_id)
    for work in (
        engine.sandboxes.set_timeout(row.sandbox_id, 10),
        engine.sandboxes.refresh(row.sandbox_id),
        engine.sandboxes.set_network(row.sandbox_id, NetworkConfig()),
        engine.sandboxes.live(row.sandbox_id),
    ):
        with pytest.raises(NotFoundError):
            await work
    assert engine.observations.logs(row.sandbox_id)
    await engine.sandboxes.kill(row.sandbox_id)
    assert not is_known(engine, row.sandbox_id)


async def test_of_two_connects_to_a_paused_sandbox_one_resumes(engine: Engine):
    row = await create(engine)
    for memory in (True, False):
        await engine.sandboxes.pause(row.sandbox_id, memory)

        results = await asyncio.gather(
            *(engine.sandboxes.connect(row.sandbox_id, 100) for _ in range(4))
        )

        assert sorted(resumed for _, resumed in results) == [False, False, False, True]
    assert await run(engine, row.sandbox_id, "echo ok") == "ok"


async def test_of_two_pauses_at_once_one_is_refused(engine: Engine):
    row = await create(engine)

    results = await asyncio.gather(
        *(engine.sandboxes.pause(row.sandbox_id, False) for _ in range(2)), return_exceptions=True
    )

    (error,) = [result for result in results if result is not None]
    assert isinstance(error, AbortedError | FailedPreconditionError)


async def test_a_connect_during_a_pause_waits_and_resumes(engine: Engine):
    row = await create(engine)
    pausing = asyncio.create_task(engine.sandboxes.pause(row.sandbox_id, False))
    await async_until(lambda: engine.sandboxes.get(row.sandbox_id).state is State.PAUSING, step=0)

    _, resumed = await engine.sandboxes.connect(row.sandbox_id, 100)

    await pausing
    assert resumed
    assert await run(engine, row.sandbox_id, "echo ok") == "ok"


async def test_a_kill_during_a_pause_waits_and_kills(engine: Engine):
    row = await create(engine)
    pausing = asyncio.create_task(engine.sandboxes.pause(row.sandbox_id, False))
    await async_until(lambda: engine.sandboxes.get(row.sandbox_id).state is State.PAUSING, step=0)

    await engine.sandboxes.kill(row.sandbox_id)

    await pausing
    assert not is_known(engine, row.sandbox_id)


async def test_an_end_time_during_a_pause_does_not_kill(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    row = await create(engine)
    freeze = Supervisor.freeze

    async def freeze_slowly(self: Supervisor, slot: Slot) -> None:
        await freeze(self, slot)
        end = engine.sandboxes.get(row.sandbox_id).end_at.timestamp()
        await async_until(lambda: time.time() > end + 0.3)

    monkeypatch.setattr(Supervisor, "freeze", freeze_slowly)
    await engine.sandboxes.set_timeout(row.sandbox_id, 1)

    await engine.sandboxes.pause(row.sandbox_id)

    assert engine.sandboxes.get(row.sandbox_id).state is State.PAUSED


async def test_resume_starts_a_paused_sandbox_only(engine: Engine):
    row = await create(engine)
    with pytest.raises(FailedPreconditionError, match="is already running"):
        await engine.sandboxes.resume(row.sandbox_id, 15)
    await engine.sandboxes.pause(row.sandbox_id)

    resumed = await engine.sandboxes.resume(row.sandbox_id, 15)

    assert resumed.state is State.RUNNING
    assert dt.timedelta(0) < resumed.end_at - dt.datetime.now(dt.UTC) <= dt.timedelta(seconds=15)


async def test_a_resume_counts_against_the_maximum(make_engine: MakeEngine):
    engine = await make_engine(max_sandboxes=1)
    paused = await create(engine)
    await engine.sandboxes.pause(paused.sandbox_id, memory=False)
    await create(engine)

    with pytest.raises(ResourceExhaustedError):
        await engine.sandboxes.connect(paused.sandbox_id, 10)

    assert engine.sandboxes.get(paused.sandbox_id).state is State.PAUSED


async def test_a_sandbox_that_keeps_its_memory_keeps_its_place(make_engine: MakeEngine):
    engine = await make_engine(max_sandboxes=1)
    paused = await create(engine)
    await engine.sandboxes.pause(paused.sandbox_id)

    with pytest.raises(ResourceExhaustedError, match="without its memory"):
        await create(engine)

    assert (await engine.sandboxes.connect(paused.sandbox_id, 10))[1]


async def test_a_pause_with_memory_drops_connections_but_not_watchers(engine: Engine):
    row = await create(engine)
    sandbox = await engine.sandboxes.live(row.sandbox_id)
    await run(engine, row.sandbox_id, "python3 -m http.server 8000 >/dev/null 2>&1 &\n"
              "until echo > /dev/tcp/localhost/8000; do sleep 0.05; done 2>/dev/null")  # fmt: skip
    process = await sandbox.processes.start(
        bash("while :; do echo tick; sleep 0.05; done"), user=None, timeout=None
    )
    watched = WatchDirRequest(path="/home/user")
    named = await sandbox.watchers.create(watched)
    watch = await sandbox.watchers.watch(watched)
    connection = await sandbox.connect_port(8000)
    subscription = process.subscribe()

    await engine.sandboxes.pause(row.sandbox_id)

    with pytest.raises(DisconnectedError):
        async for _ in subscription:
            pass
    with pytest.raises(DisconnectedError):
        await anext(watch)
    assert await asyncio.get_running_loop().sock_recv(connection, 1) == b""
    connection.close()
    await engine.sandboxes.connect(row.sandbox_id, 100)
    await run(engine, row.sandbox_id, "touch ~/seen")
    assert "seen" in {event.name for event in await sandbox.watchers.events(named)}
    async with process.subscribe() as again:
        assert isinstance(await anext(again), Output)


async def test_paused_memory_that_is_lost_leaves_the_files(engine: Engine):
    row = await create(engine)
    await run(engine, row.sandbox_id, "echo kept > ~/file")
    pid = (await engine.sandboxes.live(row.sandbox_id)).cage.pid
    await engine.sandboxes.pause(row.sandbox_id)

    os.kill(pid, signal.SIGKILL)
    await async_until(lambda: engine.sandboxes.get(row.sandbox_id).pause_mode == "filesystem")

    await engine.sandboxes.connect(row.sandbox_id, 100)
    assert await run(engine, row.sandbox_id, "cat ~/file") == "kept"


# Time


async def test_a_sandbox_is_killed_at_its_end_time(engine: Engine):
    busy = Busyness()
    row = await create(engine, timeout=1)

    await async_until(lambda: not is_known(engine, row.sandbox_id))

    late = dt.datetime.now(dt.UTC) - row.end_at
    assert dt.timedelta(0) <= late < dt.timedelta(seconds=2.5) * busy.most()
    with pytest.raises(NotFoundError):
        await engine.sandboxes.live(row.sandbox_id)
    assert messages(engine, row.sandbox_id)[-1] == "Sandbox timed out and was killed"


async def test_a_sandbox_is_out_of_sight_within_a_fifth_of_a_second(engine: Engine):
    made = [await create(engine, timeout=100) for _ in range(3)]
    busy = Busyness()
    await asyncio.gather(*(engine.sandboxes.set_timeout(row.sandbox_id, 3) for row in made))
    ends = {row.sandbox_id: engine.sandboxes.get(row.sandbox_id).end_at.timestamp() for row in made}
    seen: dict[str, float] = {}
    gone: dict[str, float] = {}

    def are_gone() -> bool:
        looked_at = time.time()
        shown = {row.sandbox_id for row in engine.sandboxes.list(SandboxFilter()).sandboxes}
        for sandbox_id in ends:
            if sandbox_id in shown:
                seen[sandbox_id] = looked_at
            else:
                gone.setdefault(sandbox_id, time.time())
        return len(gone) == len(ends)

    await async_until(are_gone, step=0.005)

    assert min(gone[sandbox_id] - end for sandbox_id, end in ends.items()) >= 0
    # By when each was last seen: how long this test itself did not get to look is no delay of it.
    late = max(seen.get(sandbox_id, end) - end for sandbox_id, end in ends.items())
    assert late < 0.2 * busy.most()


@pytest.mark.parametrize(("memory", "mode"), [(True, "full"), (False, "filesystem")])
async def test_a_sandbox_is_paused_at_its_end_time(engine: Engine, memory: bool, mode: str):
    row = await create(engine, timeout=100, autoPause=True, autoPauseMemory=memory)
    await run(engine, row.sandbox_id, "echo kept > ~/file")
    await engine.sandboxes.set_timeout(row.sandbox_id, 1)

    await async_until(lambda: engine.sandboxes.get(row.sandbox_id).state is State.PAUSED)

    assert engine.sandboxes.get(row.sandbox_id).to_detail().pause_mode == mode
    assert messages(engine, row.sandbox_id)[-1] == "Sandbox timed out and was paused"
    await engine.sandboxes.connect(row.sandbox_id, 100)
    assert await run(engine, row.sandbox_id, "cat ~/file") == "kept"


async def test_a_timeout_can_be_shortened_and_zero_ends_at_once(engine: Engine):
    row = await create(engine, timeout=100)
    await engine.sandboxes.set_timeout(row.sandbox_id, 50)
    assert engine.sandboxes.get(row.sandbox_id).end_at < row.end_at

    await engine.sandboxes.set_timeout(row.sandbox_id, 0)

    await async_until(lambda: not is_known(engine, row.sandbox_id))


async def test_a_timeout_is_capped_at_the_maximum_silently(make_engine: MakeEngine):
    engine = await make_engine(max_timeout=100)
    row = await create(engine, timeout=10)

    await engine.sandboxes.set_timeout(row.sandbox_id, 1000)

    assert engine.sandboxes.get(row.sandbox_id).end_at == row.started_at + dt.timedelta(seconds=100)
    with pytest.raises(InvalidArgumentError, match="Timeout cannot be greater than"):
        await engine.sandboxes.connect(row.sandbox_id, 101)
    with pytest.raises(InvalidArgumentError, match="Timeout cannot be greater than"):
        await create(engine, timeout=101)


async def test_a_connect_never_shortens(engine: Engine):
    row = await create(engine, timeout=300)

    same, resumed = await engine.sandboxes.connect(row.sandbox_id, 10)
    later, _ = await engine.sandboxes.connect(row.sandbox_id, 1000)

    assert not resumed
    assert same.end_at == row.end_at
    assert later.end_at > row.end_at


async def test_a_refresh_extends_by_at_least_fifteen_seconds(engine: Engine):
    row = await create(engine, timeout=10)

    await engine.sandboxes.refresh(row.sandbox_id, 3)

    extended = engine.sandboxes.get(row.sandbox_id).end_at
    assert dt.timedelta(seconds=13) < extended - dt.datetime.now(dt.UTC)
    await engine.sandboxes.refresh(row.sandbox_id)
    assert engine.sandboxes.get(row.sandbox_id).end_at >= extended
    with pytest.raises(InvalidArgumentError):
        await engine.sandboxes.refresh(row.sandbox_id, 3601)


# Waking


async def waking(engine: Engine, **fields) -> str:
    row = await create(engine, autoPause=True, autoResume={"enabled": True}, **fields)
    await engine.sandboxes.pause(row.sandbox_id)
    return row.sandbox_id


async def test_the_access_token_wakes_through_the_runtime_port(engine: Engine):
    sandbox_id = await waking(engine, timeout=77)
    token = engine.sandboxes.get(sandbox_id).access_token

    for wake in (WakeCredential(49983), WakeCredential(49983, access_token="wrong")):
        with pytest.raises(PermissionDeniedError, match="x-access-token"):
            await engine.sandboxes.live(sandbox_id, wake=wake)
    assert engine.sandboxes.get(sandbox_id).state is State.PAUSED
    sandbox = await engine.sandboxes.live(
        sandbox_id, wake=WakeCredential(49983, access_token=token)
    )

    assert sandbox.sandbox_id == sandbox_id
    left = engine.sandboxes.get(sandbox_id).end_at - dt.datetime.now(dt.UTC)
    assert dt.timedelta(seconds=75) < left <= dt.timedelta(seconds=77)


async def test_anybody_wakes_through_a_public_port(engine: Engine):
    sandbox_id = await waking(engine)

    assert await engine.sandboxes.live(sandbox_id, wake=WakeCredential(8000))


async def test_the_traffic_token_wakes_through_a_private_port(engine: Engine):
    sandbox_id = await waking(engine, network={"allowPublicTraffic": False})
    token = engine.sandboxes.get(sandbox_id).traffic_token

    with pytest.raises(PermissionDeniedError, match="'e2b-traffic-access-token' is missing"):
        await engine.sandboxes.live(sandbox_id, wake=WakeCredential(8000))
    with pytest.raises(PermissionDeniedError, match="is invalid"):
        await engine.sandboxes.live(sandbox_id, wake=WakeCredential(8000, traffic_token="wrong"))

    assert await engine.sandboxes.live(sandbox_id, wake=WakeCredential(8000, traffic_token=token))


async def test_many_requests_wake_once(engine: Engine):
    sandbox_id = await waking(engine)

    found = await asyncio.gather(
        *(engine.sandboxes.live(sandbox_id, wake=WakeCredential(8000)) for _ in range(10))
    )

    assert len(set(map(id, found))) == 1
    assert messages(engine, sandbox_id).count("Sandbox resumed") == 1


async def test_what_is_not_to_wake_stays_paused(engine: Engine):
    without = await create(engine, autoPause=True)
    await engine.sandboxes.pause(without.sandbox_id)
    on_disk = await create(engine, autoPause=True, autoResume={"enabled": True})
    await engine.sandboxes.pause(on_disk.sandbox_id, memory=False)

    for row in (without, on_disk):
        with pytest.raises(NotFoundError, match="The sandbox was not found"):
            await engine.sandboxes.live(row.sandbox_id, wake=WakeCredential(8000))
        assert engine.sandboxes.get(row.sandbox_id).state is State.PAUSED


async def test_a_refused_resume_changes_nothing(make_engine: MakeEngine):
    engine = await make_engine(max_sandboxes=1)
    paused = await create(engine)
    await engine.sandboxes.pause(paused.sandbox_id, memory=False)
    before = engine.sandboxes.get(paused.sandbox_id)
    await create(engine)

    with pytest.raises(ResourceExhaustedError):
        await engine.sandboxes.resume(paused.sandbox_id, 100, auto_pause=True)

    assert engine.sandboxes.get(paused.sandbox_id) == before
    assert engine.store.sandboxes.get(paused.sandbox_id) == before
