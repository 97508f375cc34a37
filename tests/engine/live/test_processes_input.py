"""Writing to the stdin of real processes (interface 3.5)."""

import asyncio
import hashlib

import pytest

from sbx_jupyter.errors import InternalError, UnimplementedError, UnknownError
from sbx_jupyter.protocol.runtime import ProcessInput
from tests.engine.live.running import bash, listen, run, terminal, waits_for_reading
from tests.waiting import PATIENCE, async_until


async def test_input_reaches_the_process_and_closing_ends_it(sandbox):
    process = await sandbox.processes.start(bash("cat", stdin=True))
    subscription = process.subscribe()

    await process.send_input(ProcessInput(stdin=b"one "))
    await process.send_input(ProcessInput(stdin=b"two"))
    await process.close_stdin()
    await process.close_stdin()

    heard = await listen(subscription)
    assert heard.stdout == b"one two"
    assert heard.end.exit_code == 0


async def test_stdin_is_open_unless_it_was_declined(sandbox):
    process = await sandbox.processes.start(bash("read line; echo got $line", stdin=None))
    subscription = process.subscribe()

    await process.send_input(ProcessInput(stdin=b"it\n"))

    assert (await listen(subscription)).stdout == b"got it\n"


async def test_a_process_without_stdin_reads_nothing_and_takes_nothing(sandbox):
    process = await sandbox.processes.start(bash("cat; sleep 60"))

    with pytest.raises(InternalError):
        await process.send_input(ProcessInput(stdin=b"x"))
    await process.close_stdin()


async def test_a_large_input_waits_for_the_process_and_arrives_complete(sandbox):
    content = bytes(range(256)) * 16384
    script = "until [ -e /tmp/read-now ]; do sleep 0.05; done; sha256sum"
    process = await sandbox.processes.start(bash(script, stdin=True))
    subscription = process.subscribe()

    sending = asyncio.create_task(process.send_input(ProcessInput(stdin=content)))
    await async_until(lambda: waits_for_reading(process))
    await run(sandbox, "touch /tmp/read-now")
    await sending
    await process.close_stdin()

    heard = await listen(subscription)
    assert heard.stdout.split()[0].decode() == hashlib.sha256(content).hexdigest()


async def test_inputs_of_two_callers_are_not_mixed(sandbox):
    script = "until [ -e /tmp/read-now ]; do sleep 0.05; done; uniq -c"
    process = await sandbox.processes.start(bash(script, stdin=True))
    subscription = process.subscribe()
    big = 400_000

    sending = asyncio.gather(
        process.send_input(ProcessInput(stdin=b"a\n" * big)),
        process.send_input(ProcessInput(stdin=b"b\n" * big)),
    )
    await async_until(lambda: waits_for_reading(process))
    await run(sandbox, "touch /tmp/read-now")
    await sending
    await process.close_stdin()

    assert (await listen(subscription)).stdout.split() == [b"%d" % big, b"a", b"%d" % big, b"b"]


async def test_input_that_nobody_will_read_fails(sandbox):
    process = await sandbox.processes.start(bash("exec <&-; echo closed; sleep 60", stdin=True))
    assert (await anext(process.subscribe())).chunk == b"closed\n"

    with pytest.raises(InternalError):
        await process.send_input(ProcessInput(stdin=b"x"))


async def test_input_that_waits_fails_when_the_process_is_killed(sandbox):
    process = await sandbox.processes.start(bash("sleep 1000", stdin=True))
    sending = asyncio.create_task(process.send_input(ProcessInput(stdin=b"x" * 5_000_000)))
    await async_until(lambda: waits_for_reading(process))

    await process.signal(9)

    with pytest.raises(InternalError):
        await asyncio.wait_for(sending, PATIENCE)


async def test_closing_stdin_fails_what_is_still_being_sent(sandbox):
    process = await sandbox.processes.start(bash("sleep 1000", stdin=True))
    sending = asyncio.create_task(process.send_input(ProcessInput(stdin=b"x" * 5_000_000)))
    await async_until(lambda: waits_for_reading(process))

    await process.close_stdin()

    with pytest.raises(InternalError):
        await asyncio.wait_for(sending, PATIENCE)
    with pytest.raises(InternalError):
        await process.send_input(ProcessInput(stdin=b"more"))


async def test_each_wrong_kind_of_input_has_its_error(sandbox):
    piped = await sandbox.processes.start(bash("sleep 60", stdin=True))
    pty = await sandbox.processes.start(terminal("sleep 60"))

    with pytest.raises(InternalError):
        await piped.send_input(ProcessInput(pty=b"x"))
    with pytest.raises(InternalError):
        await pty.send_input(ProcessInput(stdin=b"x"))
    with pytest.raises(UnimplementedError):
        await piped.send_input(ProcessInput())
    with pytest.raises(UnknownError):
        await pty.close_stdin()
