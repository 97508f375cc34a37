"""What an engine finds after a restart: processes go on, nothing is lost (interface 9.5)."""

import asyncio
from pathlib import Path

import pytest

from sbx_jupyter.errors import DeadlineExceededError, NotFoundError, UnavailableError
from sbx_jupyter.isolation.cage import Cage
from sbx_jupyter.protocol.runtime import ProcessInput, ProcessSelector
from tests.engine.live.running import bash, is_forgotten, listen, listen_until, terminal, type_in
from tests.waiting import PATIENCE, async_until


def command_line(cage: Cage, pid: int) -> bytes:
    """What a process of the sandbox runs, seen from outside; empty when it is gone."""
    try:
        return Path(f"/proc/{cage.pid}/root/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_a_process_and_its_output_survive_a_restart(make_sandbox, cage):
    # It waits first: what the first engine reads while it is there, it has delivered.
    script = (
        "echo before; read; sleep 1; echo between; sleep 0.3; echo still between; "
        "exec bash -c 'read; exit 5' said-all"
    )
    first = await make_sandbox()
    started = await first.processes.start(bash(script, stdin=True, tag="kept"))
    await listen_until(started.subscribe(), b"before\n")
    await started.send_input(ProcessInput(stdin=b"\n"))
    first.detach()
    await async_until(lambda: b"said-all" in command_line(cage, started.pid))

    second = await make_sandbox()
    process = second.processes.select(ProcessSelector(tag="kept"))
    subscription = process.subscribe()
    await process.send_input(ProcessInput(stdin=b"\n"))

    heard = await listen(subscription)
    assert process.pid == started.pid
    assert process.config == started.config
    assert heard.stdout == b"between\nstill between\n"
    assert heard.end.exit_code == 5


async def test_a_process_that_ended_meanwhile_gives_its_output_and_its_end(make_sandbox, cage):
    first = await make_sandbox()
    started = await first.processes.start(bash("sleep 0.2; echo result; exit 9"))
    first.detach()
    await async_until(lambda: not command_line(cage, started.pid))

    second = await make_sandbox()
    process = second.processes.select(ProcessSelector(pid=started.pid), ended=True)

    heard = await listen(process.subscribe())
    assert heard.stdout == b"result\n"
    assert heard.end.exit_code == 9


async def test_an_adopted_process_that_nobody_comes_back_for_is_not_held_up(make_sandbox):
    first = await make_sandbox()
    started = await first.processes.start(bash("sleep 0.2; head -c 8M /dev/zero; exit 2"))
    first.detach()

    second = await make_sandbox(adoption_hold=0.4)
    process = second.processes.select(ProcessSelector(pid=started.pid))

    await async_until(lambda: process.has_ended)
    assert process.end.exit_code == 2


async def test_subscriptions_of_the_old_engine_end_when_it_lets_go(make_sandbox):
    first = await make_sandbox()
    process = await first.processes.start(bash("sleep 60"))
    listening = asyncio.create_task(listen(process.subscribe()))
    await asyncio.sleep(0)

    first.detach()

    with pytest.raises(UnavailableError):
        await listening
    assert first.closed.is_set()


async def test_a_terminal_is_replayed_over_a_restart_without_gap(make_sandbox, cage):
    script = (
        "stty -echo; for i in $(seq 400); do echo $i; sleep 0.002; "
        "[ $i != 200 ] || : > /tmp/midway; done; read; echo end"
    )
    first = await make_sandbox()
    started = await first.processes.start(terminal(script))
    shown = await listen_until(started.subscribe(), b"\r\n50\r\n")
    first.detach()
    await async_until(Path(f"/proc/{cage.pid}/root/tmp/midway").exists)

    second = await make_sandbox()
    process = second.processes.select(ProcessSelector(pid=started.pid))
    subscription = process.subscribe(replay_from=0)
    await listen_until(process.subscribe(replay_from=0), b"\r\n400\r\n")
    await type_in(process, b"\n")

    heard = await listen(subscription)
    assert heard.outputs[0].sequence == 0
    assert heard.pty.startswith(shown)
    assert heard.pty == b"".join(b"%d\r\n" % i for i in range(1, 401)) + b"end\r\n"


async def test_a_time_limit_goes_on_over_a_restart(make_sandbox):
    first = await make_sandbox()
    started = await first.processes.start(bash("sleep 60"), timeout=6)  # past the restart
    first.detach()

    second = await make_sandbox()
    process = second.processes.select(ProcessSelector(pid=started.pid))

    with pytest.raises(DeadlineExceededError):
        await asyncio.wait_for(listen(process.subscribe()), 45)


async def test_a_time_limit_that_passed_meanwhile_is_kept_at_once(make_sandbox):
    first = await make_sandbox()
    started = await first.processes.start(bash("sleep 60"), timeout=0.2)
    first.detach()
    await asyncio.sleep(0.4)  # nobody is there who could tell that the limit is over

    second = await make_sandbox()
    # It may have ended already, since the limit was kept at once.
    process = second.processes.select(ProcessSelector(pid=started.pid), ended=True)

    await async_until(lambda: process.has_ended)
    assert process.end.status == "signal: killed"


async def test_a_closed_stdin_stays_closed_over_a_restart(make_sandbox):
    first = await make_sandbox()
    started = await first.processes.start(bash("sleep 1; cat; exit 3", stdin=True))
    await started.send_input(ProcessInput(stdin=b"rest"))
    await started.close_stdin()
    first.detach()

    second = await make_sandbox()
    process = second.processes.select(ProcessSelector(pid=started.pid))

    heard = await listen(process.subscribe())
    assert heard.stdout == b"rest"
    assert heard.end.exit_code == 3


async def test_the_scrollback_of_forgotten_processes_is_cleaned_up(make_sandbox, run_dir):
    first = await make_sandbox(retention=0.05)
    process = await first.processes.start(terminal("true"))
    await listen(process.subscribe())
    await async_until(lambda: is_forgotten(first, process))
    for _ in range(2):  # the agent is told to forget it, too, and answers what comes after that
        await first.files.stat("/")
    stale = run_dir / "scrollback" / "31000"
    stale.write_text("")
    first.detach()

    second = await make_sandbox()

    assert not stale.exists()
    with pytest.raises(NotFoundError):
        second.processes.select(ProcessSelector(pid=process.pid), ended=True)


async def test_a_new_engine_supersedes_one_that_did_not_let_go(make_sandbox):
    first = await make_sandbox()
    process = await first.processes.start(bash("sleep 60"))
    listening = asyncio.create_task(listen(process.subscribe()))

    second = await make_sandbox()

    with pytest.raises(UnavailableError):
        await asyncio.wait_for(listening, PATIENCE)
    assert [info.pid for info in second.processes.list()] == [process.pid]
