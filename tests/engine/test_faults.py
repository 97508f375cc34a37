"""Full disks, failing parts, too much memory: said, and nothing half made stays."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from sbx_jupyter.agent.procfs import has_ended
from sbx_jupyter.engine.context import DEFAULT_LIMITS
from sbx_jupyter.engine.engine import Engine, EngineConfig
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state.rows import BuildRow, TagAssignment, TemplateRow, now
from sbx_jupyter.engine.state.store import Batch
from sbx_jupyter.errors import InternalError, NoSpaceError, UnavailableError
from sbx_jupyter.isolation.fence_spec import Limits
from sbx_jupyter.isolation.stored.volume_content import Ownership
from tests.engine.conftest import MakeEngine
from tests.engine.live.running import listen, terminal
from tests.engine.living import create, is_known, messages, names_of_layers, run
from tests.waiting import async_until


@pytest.fixture
def small_disk(data_dir: Path) -> Iterator[Path]:
    """The data directory on a file system of 40 MB and 8,000 files."""
    data_dir.mkdir()
    options = "size=40m,nr_inodes=8000"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "sbx-test", data_dir], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("a file system of its own needs the right to mount")
    yield data_dir
    subprocess.run(["umount", "-l", data_dir], check=True)


def fill(directory: Path) -> Path:
    """Use up the space that is left."""
    path = directory / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return path


def use_up_files(directory: Path) -> Path:
    """Make empty files until the file system takes no more."""
    folder = directory / "filler"
    folder.mkdir()
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (folder / str(number)).touch()
    return folder


async def attempt(work: Awaitable[object]) -> object:
    (result,) = await asyncio.gather(work, return_exceptions=True)
    return result


async def test_on_a_full_disk_nothing_is_half_made_and_kill_works(
    small_disk: Path, make_engine: MakeEngine
):
    engine = await make_engine()
    row = await create(engine)
    filler = fill(small_disk)

    # The last bytes of the journal may still take a row or two.
    results = [await attempt(create(engine, metadata={"x": "y" * 40960})) for _ in range(5)]
    assert isinstance(results[-1], NoSpaceError)
    made = {item.sandbox_id for item in engine.sandboxes.rows()}
    with pytest.raises(NoSpaceError):
        await engine.snapshots.create(row.sandbox_id)
    assert names_of_layers(small_disk) == made
    assert os.listdir(small_disk / "layers") == []
    assert engine.sandboxes.get(row.sandbox_id).state is State.RUNNING
    for sandbox_id in made:
        await engine.sandboxes.kill(sandbox_id)
    filler.unlink()

    await async_until(lambda: engine.sandboxes.rows() == [])
    assert (await create(engine)).state is State.RUNNING


async def test_an_engine_starts_on_a_full_disk_and_can_be_used_to_clean_up(
    small_disk: Path, make_engine: MakeEngine
):
    """A terminal opens too, where its scrollback has no room."""
    engine = await make_engine()
    row = await create(engine)
    await run(engine, row.sandbox_id, "echo kept > ~/file")
    await engine.stop(kill_sandboxes=False)
    filler = fill(small_disk)

    engine = await make_engine()

    fill(small_disk)
    sandbox = await engine.sandboxes.live(row.sandbox_id)
    request = terminal("cat ~/file; exit 3")
    process = await sandbox.processes.start(request, user=None, timeout=20)
    heard = await listen(process.subscribe())
    assert (heard.pty, heard.end.exit_code) == (b"kept\r\n", 3)
    filler.unlink()
    await engine.sandboxes.kill(row.sandbox_id)
    await async_until(lambda: engine.sandboxes.rows() == [])


async def test_without_a_file_left_nothing_is_half_made_and_kill_works(
    small_disk: Path, make_engine: MakeEngine
):
    engine = await make_engine()
    row = await create(engine)
    volume = await engine.attachments.volumes.create("data")
    content = engine.attachments.volumes.open(volume.volume_id, volume.token)
    live = await engine.sandboxes.live(row.sandbox_id)
    filler = use_up_files(small_disk)

    for work in (
        create(engine),
        engine.snapshots.create(row.sandbox_id),
        engine.attachments.volumes.create("another"),
        asyncio.to_thread(content.open_write, "f", Ownership(), force=True),
        asyncio.to_thread(content.make_dir, "d", Ownership(), force=True),
        live.files.open_write("/home/user/f"),
    ):
        assert isinstance(await attempt(work), NoSpaceError)
    assert names_of_layers(small_disk) == {row.sandbox_id}
    assert os.listdir(small_disk / "layers") == []
    assert [item.name for item in engine.attachments.volumes.list()] == ["data"]
    assert await asyncio.to_thread(content.list_dir, "/") == []
    assert await run(engine, row.sandbox_id, "echo usable") == "usable"
    await engine.sandboxes.kill(row.sandbox_id)
    shutil.rmtree(filler)

    await async_until(lambda: engine.sandboxes.rows() == [])
    assert (await create(engine)).state is State.RUNNING


async def test_an_engine_starts_without_a_file_left_and_can_be_used_to_clean_up(
    small_disk: Path, make_engine: MakeEngine
):
    engine = await make_engine()
    row = await create(engine)
    await engine.stop(kill_sandboxes=False)
    filler = use_up_files(small_disk)

    engine = await make_engine()

    assert await run(engine, row.sandbox_id, "echo usable") == "usable"
    await engine.sandboxes.kill(row.sandbox_id)
    shutil.rmtree(filler)
    await async_until(lambda: engine.sandboxes.rows() == [])
    assert (await create(engine)).state is State.RUNNING


async def test_a_hook_that_fails_fails_the_creation_cleanly(engine: Engine, data_dir: Path):
    async def fail(row: object, sandbox: object) -> None:
        raise UnavailableError("no way out")

    engine.hooks.started.append(fail)

    with pytest.raises(UnavailableError, match="no way out"):
        await create(engine)

    assert engine.sandboxes.rows() == []
    await async_until(
        lambda: not os.listdir(data_dir / "sandboxes") and not os.listdir(data_dir / "run")
    )
    engine.hooks.started.remove(fail)
    assert (await create(engine)).state is State.RUNNING


async def test_a_pause_that_cannot_be_stored_is_a_pause_or_none(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
):
    engine = await make_engine()
    rows = [await create(engine) for _ in range(3)]
    for row in rows:
        await run(engine, row.sandbox_id, "echo kept > ~/file")
    store = engine.store
    commit = store.commit
    left = [0]

    async def fail_after(batch: Batch) -> None:
        if left[0] == 0:
            raise NoSpaceError("full")
        left[0] -= 1
        await commit(batch)

    monkeypatch.setattr(store, "commit", fail_after)
    states = []
    for row, works, memory in zip(rows, (0, 0, 1), (True, False, False), strict=True):
        left[0] = works
        with pytest.raises(NoSpaceError):
            await engine.sandboxes.pause(row.sandbox_id, memory)
        states.append(engine.sandboxes.get(row.sandbox_id).state)
    monkeypatch.undo()

    assert states == [State.RUNNING, State.RUNNING, State.PAUSED]
    for row in rows:
        await engine.sandboxes.connect(row.sandbox_id, 100)
        assert await run(engine, row.sandbox_id, "cat ~/file") == "kept"


@pytest.mark.long
async def test_a_resume_that_fails_leaves_the_sandbox_paused(engine: Engine):
    on_disk, frozen = await create(engine), await create(engine)
    await run(engine, on_disk.sandbox_id, "echo kept > ~/file")
    await engine.sandboxes.pause(on_disk.sandbox_id, memory=False)
    await engine.sandboxes.pause(frozen.sandbox_id)

    async def fail(row: object, sandbox: object) -> None:
        raise UnavailableError("no way out")

    engine.hooks.started.append(fail)
    with pytest.raises(UnavailableError):
        await engine.sandboxes.connect(on_disk.sandbox_id, 100)
    with pytest.raises(UnavailableError):
        await engine.sandboxes.connect(frozen.sandbox_id, 100, memory=False)
    engine.hooks.started.remove(fail)

    for row in (on_disk, frozen):
        assert engine.sandboxes.get(row.sandbox_id).state is State.PAUSED
        assert engine.sandboxes.get(row.sandbox_id).pause_mode == "filesystem"
        assert (await engine.sandboxes.connect(row.sandbox_id, 100))[1]
    assert await run(engine, on_disk.sandbox_id, "cat ~/file") == "kept"


async def test_a_process_beyond_the_memory_limit_is_killed_and_noted(make_engine: MakeEngine):
    limits = Limits(memory_mb=128, cpu_count=1, processes=100, disk_mb=1024, open_files=1024)
    engine = await make_engine(default_limits=limits, metrics_interval=0.1)
    if not engine.report.limits["memory"].startswith("cgroup"):
        pytest.skip("only a control group counts kills for want of memory")
    row = await create(engine)

    await run(engine, row.sandbox_id, "python3 -c 'x = bytearray(400 << 20)'")

    await async_until(
        lambda: "A process was killed: out of memory" in messages(engine, row.sandbox_id)
    )
    assert engine.sandboxes.get(row.sandbox_id).memory_mb == 128


async def test_a_dead_zygote_is_replaced(engine: Engine):
    first = await create(engine)
    zygote = engine.fence.zygote_pid
    assert zygote is not None
    pidfd = os.pidfd_open(zygote)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    await async_until(lambda: has_ended(pidfd))
    os.close(pidfd)

    second = await create(engine)

    assert await run(engine, first.sandbox_id, "echo ok") == "ok"
    assert await run(engine, second.sandbox_id, "echo ok") == "ok"


async def test_a_stop_waits_for_creations_in_flight(data_dir: Path, make_engine: MakeEngine):
    engine = await make_engine()
    making = [asyncio.create_task(create(engine)) for _ in range(3)]
    await asyncio.sleep(0)

    await engine.stop(kill_sandboxes=True)

    rows = await asyncio.gather(*making)
    assert len(rows) == 3
    assert os.listdir(data_dir / "sandboxes") == []


async def test_a_start_that_fails_gives_the_directory_back(data_dir: Path):
    data_dir.mkdir()
    (data_dir / "engine.db").mkdir()
    for _ in range(2):
        with pytest.raises(InternalError):
            await Engine(EngineConfig(data_dir)).start()


# Start commands


async def add_template(engine: Engine, **fields) -> None:
    at = now()
    build = BuildRow(
        build_id="build-1",
        template_id="started",
        status="ready",
        created_at=at,
        updated_at=at,
        cpu_count=2,
        memory_mb=DEFAULT_LIMITS.memory_mb,
        disk_size_mb=DEFAULT_LIMITS.disk_mb,
        **fields,
    )
    tags = {"default": TagAssignment(build_id="build-1", created_at=at)}
    template = TemplateRow(template_id="started", created_at=at, updated_at=at, tags=tags)
    await engine.store.commit(Batch().put(build).put(template))


async def test_a_start_command_runs_at_every_boot_until_it_is_ready(engine: Engine):
    await add_template(
        engine,
        start_command="echo $WHO >> ~/boots; sleep 0.3; touch /tmp/ready; exec sleep 1000",
        ready_command="test -e /tmp/ready",
        envs={"WHO": "template"},
    )

    row = await create(engine, templateID="started")
    looked = await run(engine, row.sandbox_id, "ls /tmp/ready; cat ~/boots; pgrep -c sleep")
    await engine.sandboxes.pause(row.sandbox_id, memory=False)
    await engine.sandboxes.connect(row.sandbox_id, 100)

    assert looked == "/tmp/ready\ntemplate\n1"
    assert await run(engine, row.sandbox_id, "cat ~/boots; pgrep -c sleep") == (
        "template\ntemplate\n1"
    )


async def test_a_build_that_is_not_ready_is_not_used(engine: Engine):
    await add_template(engine)
    build = engine.store.builds.get("build-1")
    assert build is not None
    await engine.store.commit(
        Batch().put(
            type(build)(
                **{**{f: getattr(build, f) for f in build.__struct_fields__}, "status": "building"}
            )
        )
    )

    with pytest.raises(Exception, match="tag 'default' does not exist"):
        await create(engine, templateID="started")
    assert not is_known(engine, "started")
