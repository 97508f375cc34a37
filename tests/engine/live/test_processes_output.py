"""What processes write and how they end, with real processes (interface 3.5)."""

import asyncio
import resource

import pytest

from sbx_jupyter.errors import InvalidArgumentError, NotFoundError
from sbx_jupyter.protocol.runtime import ProcessConfig, ProcessSelector, StartRequest
from tests.engine.live.running import bash, is_forgotten, listen, run
from tests.waiting import async_until


async def test_output_arrives_on_the_stream_that_it_was_written_to(sandbox):
    heard = await run(sandbox, "echo out; echo err >&2")

    assert heard.stdout == b"out\n"
    assert heard.stderr == b"err\n"
    assert heard.pty == b""


async def test_output_arrives_in_the_order_of_writing(sandbox):
    heard = await run(sandbox, "for i in $(seq 5000); do echo $i; done")

    assert heard.stdout.split() == [b"%d" % i for i in range(1, 5001)]


async def test_chunks_are_numbered_by_the_bytes_before_them(sandbox):
    heard = await run(sandbox, "head -c 300000 /dev/zero")

    position = 0
    for output in heard.outputs:
        assert output.sequence == position
        position += len(output.chunk)
    assert position == 300000


@pytest.mark.parametrize("code", [1, 3, 127, 255])
async def test_an_exit_code_is_reported_in_the_words_that_clients_know(sandbox, code):
    heard = await run(sandbox, f"exit {code}")

    assert heard.end.exit_code == code
    assert heard.end.exited is True
    assert heard.end.status == heard.end.error == f"exit status {code}"


async def test_success_has_a_status_and_no_error(sandbox):
    heard = await run(sandbox, "true")

    assert (heard.end.exit_code, heard.end.exited) == (0, True)
    assert heard.end.status == "exit status 0"
    assert heard.end.error is None


@pytest.mark.parametrize(
    ("signal", "text"),
    [
        ("TERM", "terminated"),
        ("KILL", "killed"),
        ("SEGV", "segmentation fault"),
        ("USR1", "user defined signal 1"),
        ("XCPU", "signal 24"),
    ],
)
async def test_a_process_that_dies_of_a_signal_says_which(sandbox, signal, text):
    heard = await run(sandbox, f"ulimit -c 0; kill -{signal} $$")

    assert (heard.end.exit_code, heard.end.exited) == (-1, False)
    assert heard.end.status == heard.end.error == f"signal: {text}"


async def test_a_missing_program_ends_with_127_and_a_message(sandbox):
    request = StartRequest(process=ProcessConfig(cmd="no-such-program"), stdin=False)

    heard = await listen((await sandbox.processes.start(request)).subscribe())

    assert heard.end.exit_code == 127
    assert b"no-such-program" in heard.stderr


async def test_a_missing_directory_is_refused_before_the_start(sandbox):
    request = StartRequest(process=ProcessConfig(cmd="true", cwd="/no/such"))

    with pytest.raises(InvalidArgumentError, match="cwd '/no/such' does not exist"):
        await sandbox.processes.start(request)

    assert sandbox.processes.list() == []


async def test_the_end_waits_for_a_grandchild_that_holds_the_output(sandbox):
    heard = await run(sandbox, "(sleep 0.5; echo late) & echo early")

    assert heard.stdout == b"early\nlate\n"
    assert heard.end.exit_code == 0


async def test_a_hundred_megabytes_pass_in_bounded_memory(sandbox):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    process = await sandbox.processes.start(bash("head -c 100M /dev/zero"))

    received = 0
    async with process.subscribe() as subscription:
        async for event in subscription:
            received += len(getattr(event, "chunk", b""))

    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert received == 100 * 1024 * 1024
    assert grown_kib < 16 * 1024


async def test_output_before_the_first_subscriber_is_kept_for_a_moment(sandbox):
    process = await sandbox.processes.start(bash("echo first"))
    await async_until(lambda: process.has_exited)

    heard = await listen(process.subscribe())

    assert heard.stdout == b"first\n"
    assert heard.end.exit_code == 0


async def test_a_process_that_nobody_listens_to_is_never_held_up(make_sandbox):
    sandbox = await make_sandbox(start_hold=0.05)
    process = await sandbox.processes.start(bash("head -c 20M /dev/zero; exit 4"))

    await async_until(lambda: process.has_ended)

    assert process.end.exit_code == 4


async def test_a_late_subscriber_hears_only_what_comes_after(sandbox):
    process = await sandbox.processes.start(bash("echo one; read; echo two", stdin=True))
    first = process.subscribe()
    assert (await anext(first)).chunk == b"one\n"

    second = process.subscribe()
    await process.close_stdin()

    assert (await listen(second)).stdout == b"two\n"
    assert (await listen(first)).stdout == b"two\n"


async def test_an_ended_process_can_be_asked_for_its_end_for_a_while(make_sandbox):
    sandbox = await make_sandbox(retention=10)
    process = await sandbox.processes.start(bash("echo gone; exit 7", tag="job"))
    await listen(process.subscribe())
    by_pid, by_tag = ProcessSelector(pid=process.pid), ProcessSelector(tag="job")

    for selector in (by_pid, by_tag):
        late = await listen(sandbox.processes.select(selector, ended=True).subscribe())
        assert late.outputs == []
        assert late.end.exit_code == 7
        with pytest.raises(NotFoundError):
            sandbox.processes.select(selector)

    await async_until(lambda: is_forgotten(sandbox, process))
    with pytest.raises(NotFoundError, match=f"process with pid {process.pid} not found"):
        sandbox.processes.select(by_pid, ended=True)
    with pytest.raises(NotFoundError, match="process with tag job not found"):
        sandbox.processes.select(by_tag, ended=True)


async def test_a_tag_selects_the_first_living_process_that_carries_it(sandbox):
    first = await sandbox.processes.start(bash("sleep 60", tag="same"))
    second = await sandbox.processes.start(bash("sleep 60", tag="same"))
    selector = ProcessSelector(tag="same")

    assert sandbox.processes.select(selector) is first

    await first.signal(9)
    await async_until(lambda: first.has_ended)
    assert sandbox.processes.select(selector, ended=True) is second


async def test_the_list_has_the_living_processes_as_they_were_asked_for(sandbox):
    await run(sandbox, "true")
    process = await sandbox.processes.start(bash("sleep 60", tag="sleeper"))

    (listed,) = sandbox.processes.list()

    assert (listed.pid, listed.tag) == (process.pid, "sleeper")
    assert listed.config == process.config


async def test_a_caller_that_goes_away_during_the_start_leaves_a_known_process(sandbox):
    task = asyncio.create_task(sandbox.processes.start(bash("sleep 60", tag="orphan")))
    await asyncio.sleep(0)
    task.cancel()

    await async_until(lambda: len(sandbox.processes.list()) == 1)

    with pytest.raises(asyncio.CancelledError):
        await task
    assert sandbox.processes.list()[0].tag == "orphan"
