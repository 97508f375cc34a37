"""Signals and time limits (interface 3.5)."""

import time

import pytest

from sbx_jupyter.errors import DeadlineExceededError, NotFoundError, UnimplementedError
from sbx_jupyter.protocol.runtime import ProcessSelector
from tests.engine.live.running import bash, exists, listen, listen_until, run
from tests.waiting import async_until


async def _count(sandbox, name: str) -> int:
    heard = await run(sandbox, f"ps ax -o args= | grep -c '^{name}$'")
    return int(heard.stdout)


async def _has(count: int, name: str, sandbox) -> bool:
    return await _count(sandbox, name) == count


@pytest.mark.parametrize(("number", "text"), [(9, "signal: killed"), (15, "signal: terminated")])
async def test_a_signal_ends_the_process_with_its_name(sandbox, number, text):
    process = await sandbox.processes.start(bash("exec sleep 60"))
    subscription = process.subscribe()

    await process.signal(number)

    heard = await listen(subscription)
    assert (heard.end.exit_code, heard.end.exited) == (-1, False)
    assert heard.end.status == heard.end.error == text


async def test_a_signal_reaches_the_whole_group(sandbox):
    process = await sandbox.processes.start(bash("sleep 4711 & sleep 4711"))
    subscription = process.subscribe()
    await async_until(lambda: _has(2, "sleep 4711", sandbox))

    await process.signal(9)
    heard = await listen(subscription)

    assert heard.end.status == "signal: killed"
    await async_until(lambda: _has(0, "sleep 4711", sandbox))


async def test_after_a_signal_the_end_does_not_wait_for_the_output_to_close(sandbox):
    script = "setsid sleep 4714 & echo before; wait"
    process = await sandbox.processes.start(bash(script))
    subscription = process.subscribe()
    await listen_until(subscription, b"before\n")
    await async_until(lambda: _has(1, "sleep 4714", sandbox))

    await process.signal(9)
    heard = await listen(subscription)

    assert heard.end.status == "signal: killed"
    assert await _count(sandbox, "sleep 4714") == 1, "the output was closed before"


async def test_what_was_written_before_a_signal_still_arrives(sandbox):
    script = "head -c 200000 /dev/zero; touch /tmp/written; sleep 60"
    process = await sandbox.processes.start(bash(script))
    subscription = process.subscribe()
    await async_until(lambda: exists(sandbox, "/tmp/written"))

    await process.signal(9)

    heard = await listen(subscription)
    assert len(heard.stdout) == 200_000
    assert heard.end.status == "signal: killed"


async def test_a_handled_termination_keeps_its_exit_code(sandbox):
    process = await sandbox.processes.start(
        bash("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    )
    subscription = process.subscribe()
    await listen_until(subscription, b"ready\n")

    await process.signal(15)

    heard = await listen(subscription)
    assert heard.stdout == b"bye\n"
    assert heard.end.exit_code == 5


async def test_other_signals_are_refused(sandbox):
    process = await sandbox.processes.start(bash("sleep 60"))

    for number in (0, 2, 19, 99):
        with pytest.raises(UnimplementedError):
            await process.signal(number)


async def test_an_ended_process_cannot_be_selected_for_a_signal(sandbox):
    process = await sandbox.processes.start(bash("true"))
    await listen(process.subscribe())

    with pytest.raises(NotFoundError, match=f"process with pid {process.pid} not found"):
        sandbox.processes.select(ProcessSelector(pid=process.pid))


async def test_a_time_limit_kills_the_group_and_ends_the_stream_with_that(sandbox):
    started = time.monotonic()
    process = await sandbox.processes.start(bash("echo on; sleep 4712 & sleep 4712"), timeout=0.5)

    with pytest.raises(DeadlineExceededError):
        await listen(process.subscribe())

    assert time.monotonic() - started >= 0.5
    assert await _count(sandbox, "sleep 4712") == 0
    late = await listen(process.subscribe())
    assert late.end.status == "signal: killed"


async def test_whoever_hears_of_a_time_limit_finds_the_group_gone(sandbox):
    # It tells its group first: the limit must pass only once that has come.
    script = "echo $$; for _ in {1..60}; do sleep 4713 & done; wait"
    process = await sandbox.processes.start(bash(script), timeout=5)

    group = (await anext(subscription := process.subscribe())).chunk.decode().strip()
    with pytest.raises(DeadlineExceededError):
        await anext(subscription)

    # Not even as processes that wait to be reaped.
    left = await run(sandbox, f"ps -e -o pgid= -o stat= | grep -w {group}")
    assert left.stdout == b""


async def test_output_before_the_time_limit_is_delivered_first(sandbox):
    process = await sandbox.processes.start(bash("echo kept; sleep 60"), timeout=3)
    subscription = process.subscribe()

    assert (await anext(subscription)).chunk == b"kept\n"
    with pytest.raises(DeadlineExceededError):
        await anext(subscription)


async def test_a_time_limit_ends_the_stream_although_a_grandchild_holds_the_output(sandbox):
    script = "setsid bash -c 'while :; do echo noise; sleep 0.01; done' & sleep 4715"
    process = await sandbox.processes.start(bash(script), timeout=0.5)

    with pytest.raises(DeadlineExceededError):
        await listen(process.subscribe())


async def test_a_time_limit_ends_the_stream_of_a_process_that_already_exited(sandbox):
    script = "setsid sleep 4716 & until ps -o args= $! | grep -q ^sleep; do :; done"
    process = await sandbox.processes.start(bash(script), timeout=5)

    with pytest.raises(DeadlineExceededError):
        await listen(process.subscribe())

    assert await _count(sandbox, "sleep 4716") == 1, "the output was closed before"


async def test_a_time_limit_holds_without_a_subscriber(sandbox):
    process = await sandbox.processes.start(bash("sleep 60"), timeout=0.3)

    await async_until(lambda: process.has_ended)

    assert process.end.status == "signal: killed"


async def test_a_process_that_ends_in_time_is_left_alone(sandbox):
    heard = await run(sandbox, "sleep 0.1; echo done", timeout=30)

    assert heard.stdout == b"done\n"
    assert heard.end.exit_code == 0


async def test_a_kill_is_answered_when_the_process_is_gone(sandbox):
    for _ in range(10):
        process = await sandbox.processes.start(bash("exec sleep 60"))

        await process.signal(9)

        assert process.has_exited
