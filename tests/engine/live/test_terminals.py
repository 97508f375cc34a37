"""Terminals: what is typed, shown, kept and replayed (interface 3.5, re-attaching)."""

import asyncio
import hashlib

import pytest

from sbx_jupyter.engine.live.scrollback import Scrollback
from sbx_jupyter.errors import InternalError, InvalidArgumentError
from sbx_jupyter.protocol.runtime import PtySize
from tests.engine.live.running import bash, listen, listen_until, terminal, type_in
from tests.waiting import async_until


async def test_a_terminal_echoes_what_is_typed(sandbox):
    process = await sandbox.processes.start(terminal("cat"))
    subscription = process.subscribe()

    await type_in(process, b"hello\n")

    assert b"hello\r\nhello\r\n" in await listen_until(subscription, b"hello\r\nhello\r\n")


async def test_control_d_ends_the_input_and_control_c_interrupts(sandbox):
    reader = await sandbox.processes.start(terminal("cat; exit 4"))
    sleeper = await sandbox.processes.start(terminal("echo on; exec sleep 60"))
    shown = sleeper.subscribe()
    await listen_until(shown, b"on")

    await type_in(reader, b"\x04")
    await type_in(sleeper, b"\x03")

    assert (await listen(reader.subscribe())).end.exit_code == 4
    assert (await listen(shown)).end.status == "signal: interrupt"


async def test_a_terminal_has_the_size_that_was_asked_for_and_can_be_resized(sandbox):
    script = "stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"
    process = await sandbox.processes.start(terminal(script, cols=91, rows=17))
    subscription = process.subscribe()
    assert b"17 91" in await listen_until(subscription, b"ready")

    process.resize(PtySize(cols=120, rows=40))

    assert b"40 120" in await listen_until(subscription, b"40 120")


async def test_only_a_terminal_has_a_size_and_only_a_possible_one(sandbox):
    piped = await sandbox.processes.start(bash("sleep 60"))
    shown = await sandbox.processes.start(terminal("sleep 60"))

    with pytest.raises(InternalError):
        piped.resize(PtySize(cols=1, rows=1))
    with pytest.raises(InvalidArgumentError):
        shown.resize(PtySize(cols=70000, rows=1))
    with pytest.raises(InvalidArgumentError):
        await sandbox.processes.start(terminal("true", cols=-1))


async def test_a_megabyte_can_be_pasted(sandbox):
    content = b"0123456789abcde\n" * 65536
    script = f"stty raw -echo; echo ready; head -c {len(content)} | sha256sum"
    process = await sandbox.processes.start(terminal(script))
    subscription = process.subscribe()
    await listen_until(subscription, b"ready")

    await asyncio.wait_for(type_in(process, content), 20)

    digest = hashlib.sha256(content).hexdigest().encode()
    assert digest in await listen_until(subscription, b"-")


async def test_the_end_of_a_terminal_comes_after_all_its_output(sandbox):
    heard = await listen((await sandbox.processes.start(terminal("seq 20000; exit 2"))).subscribe())

    assert heard.pty == b"".join(b"%d\r\n" % i for i in range(1, 20001))
    assert heard.end.exit_code == 2


async def test_output_can_be_replayed_from_a_sequence_and_goes_on_live(sandbox):
    process = await sandbox.processes.start(terminal("stty -echo; echo abcdef; read; echo ghi"))
    first = process.subscribe()
    shown = await listen_until(first, b"abcdef\r\n")

    again = process.subscribe(replay_from=3)
    await type_in(process, b"\n")
    heard = await listen(again)

    assert heard.outputs[0].sequence == 3
    assert heard.pty == (shown + await _rest(first))[3:]
    assert heard.pty.endswith(b"ghi\r\n")


async def _rest(subscription) -> bytes:
    return (await listen(subscription)).pty


async def test_replay_meets_live_output_without_gap_or_duplicate(sandbox):
    script = "stty -echo; for i in $(seq 60000); do echo $i; done"
    process = await sandbox.processes.start(terminal(script))
    whole = asyncio.create_task(listen(process.subscribe()))
    joined = []
    for _ in range(5):
        await asyncio.sleep(0.05)  # they join at moments that nothing has chosen
        joined.append(asyncio.create_task(listen(process.subscribe(replay_from=0))))

    everything = (await whole).pty

    assert everything.endswith(b"60000\r\n")
    for task in joined:
        heard = await task
        assert heard.pty == everything[heard.outputs[0].sequence :]
        for before, after in zip(heard.outputs, heard.outputs[1:], strict=False):
            assert after.sequence == before.sequence + len(before.chunk)


async def test_replay_begins_at_the_oldest_byte_that_is_kept(make_sandbox):
    sandbox = await make_sandbox(scrollback_size=65536)
    process = await sandbox.processes.start(terminal("head -c 200000 /dev/zero; read"))
    live = process.subscribe()
    seen = 0
    while seen < 200000:
        seen += len((await anext(live)).chunk)

    event = await anext(process.subscribe(replay_from=0))

    assert event.sequence == 200000 - 65536


async def test_the_scrollback_of_an_ended_terminal_is_kept_as_long_as_its_end(
    make_sandbox, run_dir
):
    sandbox = await make_sandbox(retention=10)
    process = await sandbox.processes.start(terminal("echo last words"))
    await listen(process.subscribe())
    path = run_dir / "scrollback" / str(process.pid)

    late = await listen(process.subscribe(replay_from=0))

    assert late.pty == b"last words\r\n"
    assert late.end.exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    await async_until(lambda: not path.exists())


def test_a_ring_keeps_the_newest_bytes_and_their_numbers_over_a_restart(tmp_path):
    ring = Scrollback.create(tmp_path / "1", capacity=1000)
    produced = b""
    for size in (1, 999, 500, 2500, 37, 1000):
        chunk = bytes((len(produced) + i) % 251 for i in range(size))
        ring.append(chunk)
        produced += chunk
    ring.close()

    again = Scrollback.open(tmp_path / "1", capacity=1000)

    assert (again.oldest, again.end) == (len(produced) - 1000, len(produced))
    replay = again.replay(0)
    assert b"".join(iter(lambda: getattr(replay.next(), "chunk", b""), b"")) == produced[-1000:]
    again.close()


def test_a_damaged_ring_starts_anew(tmp_path):
    (tmp_path / "1").write_bytes(b"not a ring")

    ring = Scrollback.open(tmp_path / "1", capacity=1000)

    assert (ring.oldest, ring.end) == (0, 0)
    ring.remove()
    assert not (tmp_path / "1").exists()
