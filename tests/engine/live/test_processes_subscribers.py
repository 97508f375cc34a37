"""Several readers of one process, fast and slow ones (interface 3.5)."""

import asyncio

import pytest

from sbx_jupyter.engine.live.subscriptions import QUEUE_LIMIT, DisconnectedError
from sbx_jupyter.errors import DeadlineExceededError, ResourceExhaustedError, UnavailableError
from tests.engine.live.running import bash, count_descriptors, is_held_up, listen, run
from tests.waiting import PATIENCE, async_until


async def test_every_subscriber_gets_every_byte(sandbox):
    process = await sandbox.processes.start(bash("seq 200000"))

    both = await asyncio.gather(listen(process.subscribe()), listen(process.subscribe()))

    expected = b"".join(b"%d\n" % i for i in range(1, 200001))
    assert [heard.stdout == expected for heard in both] == [True, True]


async def test_a_slow_subscriber_holds_up_the_process_and_loses_nothing(sandbox):
    process = await sandbox.processes.start(
        bash("head -c 8M /dev/zero; touch /tmp/written; exit 3")
    )
    subscription = process.subscribe()
    await async_until(lambda: subscription.is_full)
    assert await is_held_up(sandbox, process, "head")
    entries = await sandbox.files.list_dir("/tmp")
    assert "written" not in [entry.name for entry in entries]

    received = 0
    async for event in subscription:
        received += len(getattr(event, "chunk", b""))

    assert received == 8 * 1024 * 1024
    assert process.end.exit_code == 3


async def test_what_waits_for_a_subscriber_is_bounded(sandbox):
    process = await sandbox.processes.start(bash("head -c 64M /dev/zero"))
    subscription = process.subscribe()
    await async_until(lambda: subscription.is_full)

    assert await is_held_up(sandbox, process, "head")
    assert len(subscription._queue) <= QUEUE_LIMIT
    subscription.close()
    await async_until(lambda: process.has_ended)


async def test_a_subscriber_that_stops_reading_is_sent_away_for_the_sake_of_others(make_sandbox):
    sandbox = await make_sandbox(stall_limit=0.4)
    process = await sandbox.processes.start(bash("head -c 16M /dev/zero"))
    stalled, reading = process.subscribe(), process.subscribe()

    heard = await asyncio.wait_for(listen(reading), 30)

    assert len(heard.stdout) == 16 * 1024 * 1024
    with pytest.raises(ResourceExhaustedError):
        await listen(stalled)


async def test_a_single_slow_subscriber_is_waited_for(make_sandbox):
    sandbox = await make_sandbox(stall_limit=0.1)
    process = await sandbox.processes.start(bash("head -c 4M /dev/zero"))
    subscription = process.subscribe()
    await async_until(lambda: subscription.is_full)
    await asyncio.sleep(0.5)  # five times as long as one may hold up others

    assert len((await listen(subscription)).stdout) == 4 * 1024 * 1024


async def test_a_slow_but_steady_subscriber_stays(make_sandbox):
    sandbox = await make_sandbox(stall_limit=1.5)
    process = await sandbox.processes.start(bash("head -c 3M /dev/zero"))
    slow, fast = process.subscribe(), process.subscribe()
    listening = asyncio.create_task(listen(fast))

    received = 0
    async for event in slow:
        received += len(getattr(event, "chunk", b""))
        await asyncio.sleep(0.05)  # this is how slow it is

    assert received == 3 * 1024 * 1024
    assert len((await listening).stdout) == received


async def test_the_process_goes_on_when_its_subscriber_leaves(sandbox):
    process = await sandbox.processes.start(bash("head -c 8M /dev/zero; exit 6"))

    async with process.subscribe() as subscription:
        await anext(subscription)

    await async_until(lambda: process.has_ended)
    assert process.end.exit_code == 6


async def test_a_subscription_that_is_closed_from_outside_stops(sandbox):
    process = await sandbox.processes.start(bash("sleep 1000"))
    subscription = process.subscribe()
    listening = asyncio.create_task(listen(subscription))
    await asyncio.sleep(0)

    subscription.close()

    assert (await asyncio.wait_for(listening, PATIENCE)).ended is None


async def test_closing_the_sandbox_ends_every_subscription(sandbox):
    processes = [await sandbox.processes.start(bash("sleep 60")) for _ in range(3)]
    listening = [asyncio.create_task(listen(process.subscribe())) for process in processes]
    await asyncio.sleep(0)

    await sandbox.aclose()

    results = await asyncio.gather(*listening, return_exceptions=True)
    assert [type(result) for result in results] == [UnavailableError] * 3
    with pytest.raises(UnavailableError):
        await sandbox.processes.start(bash("true"))


async def test_two_hundred_processes_leave_no_descriptor_behind(make_sandbox):
    sandbox = await make_sandbox(retention=0.1)
    await run(sandbox, "true")
    await async_until(lambda: not sandbox.processes._ended)
    before = count_descriptors()

    for _ in range(10):
        await asyncio.gather(*(run(sandbox, "echo $$; echo >&2") for _ in range(20)))

    await async_until(lambda: count_descriptors() == before)
    assert len(await _agent_descriptors(sandbox)) < 40


async def _agent_descriptors(sandbox) -> list[bytes]:
    return (await run(sandbox, "ls /proc/1/fd")).stdout.split()


async def test_nobody_waits_for_a_process_of_a_paused_sandbox(sandbox):
    before = await sandbox.processes.start(bash("sleep 100"))
    sandbox.disconnect()
    meanwhile = await sandbox.processes.start(bash("sleep 100"), timeout=0.5)

    for process in (before, meanwhile):
        with pytest.raises(DisconnectedError):
            await asyncio.wait_for(listen(process.subscribe()), 30)
    await asyncio.sleep(1)  # its time limit waits too
    assert not meanwhile.has_exited

    sandbox.resume()
    with pytest.raises(DeadlineExceededError):
        await asyncio.wait_for(listen(meanwhile.subscribe()), 30)


async def test_nobody_waits_for_a_process_of_a_sandbox_that_ended(sandbox):
    process = await sandbox.processes.start(bash("sleep 100"))
    await sandbox.aclose()

    with pytest.raises(UnavailableError):
        await asyncio.wait_for(listen(process.subscribe()), 30)
