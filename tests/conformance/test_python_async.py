"""e2b for Python, asynchronously: what differs from the synchronous client is the transport."""

from __future__ import annotations

import asyncio
import os

import pytest
import pytest_asyncio
from e2b import AsyncSandbox, CommandExitException, NotFoundException, PtySize, TimeoutException
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType

from tests.waiting import PATIENCE


@pytest_asyncio.fixture
async def sandbox(e2b_variables):
    async with await AsyncSandbox.create(timeout=600) as created:
        yield created


async def test_commands_run_side_by_side(sandbox):
    results = await asyncio.gather(*(sandbox.commands.run(f"echo {n}") for n in range(10)))

    assert [result.stdout for result in results] == [f"{n}\n" for n in range(10)]


async def test_a_failing_command_raises(sandbox):
    with pytest.raises(CommandExitException) as caught:
        await sandbox.commands.run("echo no >&2; false")

    assert (caught.value.exit_code, caught.value.stderr) == (1, "no\n")


async def test_a_command_is_killed_when_its_time_is_over(sandbox):
    with pytest.raises(TimeoutException):
        await sandbox.commands.run("sleep 30", timeout=1)


async def test_background_output_reaches_callbacks(sandbox):
    heard = []

    handle = await sandbox.commands.run(
        "read line; echo got $line", background=True, stdin=True, on_stdout=heard.append
    )
    await sandbox.commands.send_stdin(handle.pid, "this\n")
    await handle.wait()

    assert "".join(heard) == "got this\n"


async def test_files_come_back_as_written(sandbox):
    content = os.urandom(500_000)

    await sandbox.files.write("blob", content)

    assert bytes(await sandbox.files.read("blob", format="bytes")) == content
    stream = await sandbox.files.read("blob", format="stream")
    assert b"".join([chunk async for chunk in stream]) == content
    with pytest.raises(NotFoundException):
        await sandbox.files.read("missing")


async def test_a_streamed_watch_reports_what_changes(sandbox):
    await sandbox.files.make_dir("watched")
    seen, enough = [], asyncio.Event()

    def on_event(event):
        seen.append((event.name, event.type))
        if event.type == FilesystemEventType.REMOVE:
            enough.set()

    handle = await sandbox.files.watch_dir("watched", on_event=on_event, include_entry=True)
    await sandbox.files.write("watched/new", "x")
    await sandbox.files.remove("watched/new")
    await asyncio.wait_for(enough.wait(), PATIENCE)
    await handle.stop()

    assert seen[0] == ("new", FilesystemEventType.CREATE)
    assert ("new", FilesystemEventType.WRITE) in seen


async def test_a_terminal_types_back(sandbox):
    output, answered = bytearray(), asyncio.Event()

    def on_data(chunk):
        output.extend(chunk)
        if b"mark=42" in output:
            answered.set()

    terminal = await sandbox.pty.create(PtySize(rows=10, cols=40), on_data=on_data)
    await sandbox.pty.send_stdin(terminal.pid, b"echo mark=$((40+2))\n")
    await asyncio.wait_for(answered.wait(), PATIENCE)

    assert await sandbox.pty.kill(terminal.pid) is True
    with pytest.raises(CommandExitException):
        await terminal.wait()


async def test_a_killed_sandbox_ends_its_streams(sandbox):
    handle = await sandbox.commands.run("sleep 1000", background=True, timeout=0)

    await sandbox.kill()

    with pytest.raises(Exception, match=r"(?i)sandbox|not running|killed|terminated"):
        await handle.wait()


async def test_pause_and_connect_keep_the_sandbox(sandbox):
    await sandbox.files.write("kept", "yes")

    assert await sandbox.pause() is True

    resumed = await AsyncSandbox.connect(sandbox.sandbox_id, timeout=600)
    assert await resumed.files.read("kept") == "yes"
