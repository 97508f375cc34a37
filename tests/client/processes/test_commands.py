"""Commands and terminals through our client."""

from __future__ import annotations

import asyncio

import pytest

from sbx_jupyter.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from tests.waiting import PATIENCE, async_until


async def test_a_result_holds_output_and_exit_code(sandbox):
    result = await sandbox.commands.run("echo out; echo err >&2; exit 3")

    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert result.error == "exit status 3"


async def test_words_are_not_expanded(sandbox):
    result = await sandbox.commands.run(["echo", "$HOME", "two words"])

    assert result.stdout == "$HOME two words\n"


async def test_directory_user_and_environment_are_obeyed(sandbox):
    result = await sandbox.commands.run(
        "whoami; pwd; echo $A", user="root", cwd="/tmp", envs={"A": "b"}
    )

    assert result.stdout == "root\n/tmp\nb\n"
    with pytest.raises(InvalidArgumentError):
        await sandbox.commands.run("true", cwd="/missing")
    with pytest.raises(UnauthenticatedError):
        await sandbox.commands.run("true", user="nobody-here")


async def test_callbacks_get_whole_characters_while_it_runs(sandbox):
    heard = []

    async def on_stdout(text):
        heard.append(text)
        await sandbox.files.write("heard", "")

    script = r"printf 'a\xe2\x82'; until [ -e heard ]; do sleep 0.05; done; printf '\xac'"
    await sandbox.commands.run(script, on_stdout=on_stdout)

    assert heard == ["a", "€"]


async def test_a_command_is_killed_when_its_time_is_over(sandbox):
    with pytest.raises(DeadlineExceededError):
        await sandbox.commands.run("sleep 1000", timeout=0.5)

    assert await sandbox.commands.list() == []


async def test_cancelling_a_foreground_command_kills_it(sandbox):
    task = asyncio.ensure_future(sandbox.commands.run("sleep 1000"))
    await async_until(sandbox.commands.list)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def is_gone():
        return await sandbox.commands.list() == []

    await async_until(is_gone)


async def test_a_background_command_takes_input_of_any_size(sandbox):
    handle = await sandbox.commands.run("wc -c", background=True, stdin=True)

    await handle.send_stdin(b"x" * 1_000_000)
    await handle.close_stdin()

    assert (await handle.wait()).stdout == "1000000\n"


async def test_an_unread_background_command_does_not_wait_for_us(sandbox):
    handle = await sandbox.commands.run(
        "head -c 3000000 /dev/zero | tr '\\0' x; touch done", background=True
    )

    result = await handle.wait()

    assert len(result.stdout) == 3_000_000
    assert await sandbox.files.exists("done")


async def test_a_running_command_can_be_joined_and_killed(sandbox):
    handle = await sandbox.commands.run("sleep 1000", background=True, timeout=None)
    other = await sandbox.commands.connect(handle.pid)

    assert await other.kill() is True

    result = await handle.wait()
    assert (result.exit_code, result.error) == (-1, "signal: killed")
    assert await sandbox.commands.kill(handle.pid) is False
    with pytest.raises(NotFoundError):
        await sandbox.commands.connect(999_999)
    await other.disconnect()


async def test_a_disconnected_command_runs_on(sandbox):
    script = "until [ -e go ]; do sleep 0.05; done; touch done"
    handle = await sandbox.commands.run(script, background=True)

    await handle.disconnect()
    await sandbox.files.write("go", "")

    await async_until(lambda: sandbox.files.exists("done"))


async def test_killing_the_sandbox_ends_the_wait(sandbox):
    handle = await sandbox.commands.run("sleep 1000", background=True, timeout=None)

    await sandbox.kill()

    with pytest.raises(UnavailableError):
        async with asyncio.timeout(PATIENCE):
            await handle.wait()


async def read_until(terminal, text):
    output = b""
    async with asyncio.timeout(PATIENCE):
        async for piece in terminal:
            output += piece.chunk
            if text in output:
                return output
    raise AssertionError(f"the terminal ended after {output!r}")


async def test_a_terminal_types_back_and_is_resized(sandbox):
    async with await sandbox.pty.create(cols=77, rows=11) as terminal:
        await terminal.send("stty size; echo mark=$((40+2))\n")
        assert b"11 77" in await read_until(terminal, b"mark=42")

        await terminal.resize(100, 30)
        await terminal.send("stty size\n")
        await read_until(terminal, b"30 100")

        await terminal.send("exit 5\n")
        assert await terminal.wait() == 5


async def test_a_terminal_carries_on_where_the_connection_was_lost(sandbox):
    terminal = await sandbox.pty.create()
    await terminal.send("echo first-$((1+1))\n")
    before = await read_until(terminal, b"first-2")
    await terminal.disconnect()
    await terminal.send("echo second-$((2+2))\n")
    from_start = await sandbox.pty.connect(terminal.pid, replay_from=0)
    whole = await read_until(from_start, b"second-4")

    again = await sandbox.pty.connect(terminal.pid, replay_from=terminal.next_sequence)
    after = await read_until(again, b"second-4")

    assert b"first-2" not in after
    assert whole.startswith(before)
    assert (before + after).startswith(whole) or whole.startswith(before + after)
    assert await terminal.kill() is True
    await again.wait()
    assert await terminal.kill() is False
    await from_start.disconnect()


async def test_a_reader_that_gave_up_waiting_can_read_on(sandbox):
    async with await sandbox.pty.create() as terminal:
        await read_until(terminal, b"$")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(terminal), 0.2)

        await terminal.send("echo mark=$((40+2))\n")

        await read_until(terminal, b"mark=42")
