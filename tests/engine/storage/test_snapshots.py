"""Snapshots and forks: files of a running sandbox, for others to start from."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from sbx_jupyter.engine.engine import Engine, SnapshotFilter
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state.rows import SandboxRow
from sbx_jupyter.engine.storage.layers import Size
from sbx_jupyter.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    SbxError,
)
from tests.engine.conftest import MakeEngine
from tests.engine.living import create, messages, run, start
from tests.waiting import async_until

FILES = """
set -e
cd ~
echo one > file; chmod 640 file; touch -d '2020-01-02 03:04:05.123456789' file
ln -s file link; ln file hard; mkfifo fifo; mkdir -p dir/sub; echo x > 'dir/sub/a b'
python3 -c 'import os; os.setxattr("file", "user.note", b"kept")'
truncate -s 100M sparse
sudo rm -r /usr/share/doc /etc/shells
sudo sh -c 'rm -r /etc/skel; mkdir /etc/skel; echo new > /etc/skel/only'
sudo sh -c 'echo root > /opt/owned; chown root:root /opt/owned; mkdir -p /usr/local/lib/x'
"""

LOOK = """
cd ~
stat -c '%n %a %U %G %h %Y %F' file link hard fifo dir/sub/a\\ b /opt/owned
python3 -c 'import os; print(os.getxattr("file", "user.note"), os.stat("file").st_mtime_ns)'
stat -c '%s %b' sparse | awk '{ print $1, ($2 < 1000) }'
ls /usr/share/doc /etc/shells 2>&1; ls -A /etc/skel; ls -d /usr/local/lib/x
"""


async def test_a_snapshot_holds_every_file_as_it_was(engine: Engine):
    source = await create(engine)
    assert await run(engine, source.sandbox_id, FILES) == ""
    looked = await run(engine, source.sandbox_id, LOOK)

    snapshot = await engine.snapshots.create(source.sandbox_id)
    await run(engine, source.sandbox_id, "echo changed > ~/file; rm ~/link; echo y > ~/later")
    await engine.sandboxes.kill(source.sandbox_id)
    copy = await create(engine, templateID=snapshot.snapshot_id)

    assert await run(engine, copy.sandbox_id, LOOK) == looked
    assert await run(engine, copy.sandbox_id, "cat ~/file; ls ~/later") == (
        "one\nls: cannot access '/home/user/later': No such file or directory"
    )
    assert "No such file" in looked
    assert looked.splitlines()[-2:] == ["only", "/usr/local/lib/x"]
    assert copy.access_token != source.access_token


async def test_the_source_goes_on_during_and_after_a_snapshot(engine: Engine):
    row = await create(engine)
    pid = await start(engine, row.sandbox_id, "exec sleep 1000")

    await engine.snapshots.create(row.sandbox_id)

    after = engine.sandboxes.get(row.sandbox_id)
    assert (after.state, after.end_at) == (State.RUNNING, row.end_at)
    until_it_sleeps = f"until [ $(ps -o state= -p {pid}) = S ]; do sleep 0.01; done; echo it sleeps"
    assert await run(engine, row.sandbox_id, until_it_sleeps) == "it sleeps"
    assert messages(engine, row.sandbox_id)[-1] == "Snapshot made"


async def test_a_snapshot_of_a_sandbox_from_a_snapshot_has_both_layers(
    make_engine: MakeEngine,
):
    engine = await make_engine()
    first = await create(engine)
    await run(engine, first.sandbox_id, "echo 1 > ~/one; echo 1 > ~/gone")
    one = await engine.snapshots.create(first.sandbox_id, "mine:v1")
    second = await create(engine, templateID=one.snapshot_id)
    await run(engine, second.sandbox_id, "echo 2 > ~/two; rm ~/gone; echo 3 >> ~/one")

    two = await engine.snapshots.create(second.sandbox_id, "mine:v2")
    await engine.stop(kill_sandboxes=True)
    engine = await make_engine()
    third = await create(engine, templateID="mine:v2")

    assert (one.snapshot_id, one.names) == ("local/mine:v1", ["local/mine:v1"])
    assert two.snapshot_id == "local/mine:v2"
    assert third.template_id == second.template_id
    assert await run(engine, third.sandbox_id, "cat ~/one ~/two; ls ~/gone 2>&1 | wc -l") == (
        "1\n3\n2\n1"
    )
    old = await create(engine, templateID="mine:v1")
    assert await run(engine, old.sandbox_id, "cat ~/one; ls -A ~ | grep -c two") == "1\n0"
    with pytest.raises(NotFoundError, match="tag 'default' does not exist"):
        await create(engine, templateID="mine")


async def test_snapshots_are_listed_newest_first_by_name_and_source(engine: Engine):
    rows = [await create(engine) for _ in range(2)]
    unnamed = await engine.snapshots.create(rows[0].sandbox_id)
    tagged = await engine.snapshots.create(rows[1].sandbox_id, "a:v1")
    plain = await engine.snapshots.create(rows[1].sandbox_id, "a")

    def listed(**wanted) -> list[str]:
        return [info.snapshot_id for info in engine.snapshots.list(SnapshotFilter(**wanted))[0]]

    assert unnamed.snapshot_id.endswith(":default")
    assert unnamed.names == []
    assert listed() == [plain.snapshot_id, tagged.snapshot_id, unnamed.snapshot_id]
    assert listed(sandbox_id=rows[0].sandbox_id) == [unnamed.snapshot_id]
    assert listed(name="a") == [plain.snapshot_id, tagged.snapshot_id]
    assert listed(name="a:default") == [plain.snapshot_id]
    assert listed(name="a:v1") == [tagged.snapshot_id]
    assert listed(name="nosuch") == []
    assert listed(name="base") == []
    assert listed(name=unnamed.snapshot_id.partition(":")[0]) == [unnamed.snapshot_id]
    first, token = engine.snapshots.list(SnapshotFilter(limit=2))
    rest, end = engine.snapshots.list(SnapshotFilter(limit=2, next_token=token))
    assert [info.snapshot_id for info in first + rest] == listed()
    assert end is None


@pytest.mark.parametrize("name", ["other/mine", "base", "a b", "mine:a:b"])
async def test_a_name_that_cannot_be_taken_is_refused(engine: Engine, name: str):
    row = await create(engine)

    with pytest.raises(InvalidArgumentError):
        await engine.snapshots.create(row.sandbox_id, name)


async def test_only_a_running_sandbox_is_snapshotted_and_forked(engine: Engine):
    row = await create(engine)
    await engine.sandboxes.pause(row.sandbox_id)

    with pytest.raises(NotFoundError):
        await engine.snapshots.create(row.sandbox_id)
    with pytest.raises(FailedPreconditionError):
        await engine.forks.create(row.sandbox_id)


async def test_a_removed_snapshot_leaves_no_layer(engine: Engine, data_dir: Path):
    row = await create(engine)
    snapshot = await engine.snapshots.create(row.sandbox_id)
    user = await create(engine, templateID=snapshot.snapshot_id)
    with pytest.raises(InvalidArgumentError, match="in use"):
        await engine.templates.builder.remove(snapshot.snapshot_id)

    await engine.sandboxes.kill(user.sandbox_id)
    await engine.templates.builder.remove(snapshot.snapshot_id)

    await async_until(lambda: os.listdir(data_dir / "layers") == [])
    with pytest.raises(NotFoundError):
        await engine.templates.builder.remove(snapshot.snapshot_id)
    with pytest.raises(NotFoundError):
        await create(engine, templateID=snapshot.snapshot_id)
    with pytest.raises(InvalidArgumentError, match="stock"):
        await engine.templates.builder.remove("base")


async def test_a_removal_of_a_snapshot_does_not_wait_for_its_files(
    make_engine: MakeEngine, data_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    engine = await make_engine()
    row = await create(engine)
    snapshot = await engine.snapshots.create(row.sandbox_id)
    trees = engine.fence.tree_operations
    is_slow, may_end = asyncio.Event(), asyncio.Event()

    async def remove_slowly(directory: Path) -> None:
        is_slow.set()
        await may_end.wait()
        await remove(directory)

    remove = trees.remove
    monkeypatch.setattr(trees, "remove", remove_slowly)
    await engine.templates.builder.remove(snapshot.snapshot_id)

    await is_slow.wait()
    assert os.listdir(data_dir / "layers") != []
    assert engine.snapshots.list(SnapshotFilter()) == ([], None)
    await engine.stop(kill_sandboxes=False)  # it waits for a second, then leaves the files
    await make_engine()
    await async_until(lambda: os.listdir(data_dir / "layers") == [])


async def test_forks_are_copies_that_go_their_own_ways(engine: Engine, data_dir: Path):
    source = await create(engine, metadata={"a": "b"}, envVars={"MINE": "1"})
    await run(engine, source.sandbox_id, "echo shared > ~/file")

    forks = await engine.forks.create(source.sandbox_id, timeout=100, count=3)

    rows = [fork for fork in forks if isinstance(fork, SandboxRow)]
    assert len(rows) == 3
    assert len({row.sandbox_id for row in (*rows, source)}) == 4
    assert len({row.access_token for row in (*rows, source)}) == 4
    for number, row in enumerate(rows):
        script = f"cat ~/file; echo $MINE $E2B_SANDBOX_ID; echo {number} > ~/file"
        assert await run(engine, row.sandbox_id, script) == f"shared\n1 {row.sandbox_id}"
        assert row.metadata == {"a": "b"}
        assert 99 < (row.end_at - row.started_at).total_seconds() <= 100
    assert await run(engine, source.sandbox_id, "cat ~/file") == "shared"
    assert await run(engine, rows[1].sandbox_id, "cat ~/file") == "1"
    assert engine.sandboxes.get(source.sandbox_id).end_at == source.end_at
    for row in rows:
        await engine.sandboxes.kill(row.sandbox_id)
    await async_until(lambda: os.listdir(data_dir / "layers") == [])


async def test_forks_beyond_the_maximum_are_errors_beside_the_others(make_engine: MakeEngine):
    engine = await make_engine(max_sandboxes=3)
    source = await create(engine)
    await create(engine)

    forks = await engine.forks.create(source.sandbox_id, count=2)

    assert sorted(isinstance(fork, SbxError) for fork in forks) == [False, True]
    assert any(isinstance(fork, ResourceExhaustedError) for fork in forks)
    for count in (0, 3, 101):
        with pytest.raises(InvalidArgumentError):
            await engine.forks.create(source.sandbox_id, count=count)


async def test_layers_half_made_by_an_engine_are_removed(make_engine: MakeEngine, data_dir: Path):
    engine = await make_engine()
    row = await create(engine)
    kept = await engine.snapshots.create(row.sandbox_id)
    await engine.stop(kill_sandboxes=True)
    (data_dir / "layers" / str(uuid.uuid4()) / "a").mkdir(parents=True)

    engine = await make_engine()

    assert len(os.listdir(data_dir / "layers")) == 2  # the layer and its manifest
    assert (await create(engine, templateID=kept.snapshot_id)).state is State.RUNNING


async def test_a_kill_during_a_snapshot_waits(engine: Engine):
    row = await create(engine)
    await run(engine, row.sandbox_id, "head -c 50M /dev/urandom > ~/big")
    making = asyncio.create_task(engine.snapshots.create(row.sandbox_id))
    await async_until(
        lambda: engine.sandboxes.get(row.sandbox_id).state is State.SNAPSHOTTING, step=0
    )

    await engine.sandboxes.kill(row.sandbox_id)

    assert (await making).snapshot_id


async def test_disk_use_is_reported_while_snapshots_are_made(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    row = await create(engine)
    layers = engine._running().context.layers
    measure = layers.sizes

    async def sizes(names: Iterable[str]) -> dict[str, Size]:
        found = await measure(names)
        await engine.snapshots.create(row.sandbox_id)
        return found

    monkeypatch.setattr(layers, "sizes", sizes)

    found = await engine.storage.disk.report(max_age=0)

    assert [each.kind for each in found.templates].count("snapshot") == 1


async def test_reports_of_disk_use_share_one_measurement(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    trees = engine.fence.tree_operations
    measure, calls, may_end = trees.measure_all, list[int](), asyncio.Event()

    async def measure_all(paths: Sequence[Path]) -> list[tuple[int, int] | None]:
        calls.append(len(paths))
        await may_end.wait()
        return await measure(paths)

    monkeypatch.setattr(trees, "measure_all", measure_all)
    disk = engine.storage.disk
    asked = [asyncio.create_task(disk.report(max_age=0)) for _ in range(5)]
    await async_until(lambda: calls)
    asked.pop(0).cancel()  # who asked first goes away; the others keep the measurement
    late = asyncio.create_task(disk.report(max_age=0))
    may_end.set()
    found = await asyncio.gather(*asked, late)

    assert len(calls) == 1
    assert len({each.measured_at for each in found}) == 1
    await disk.report(max_age=0)
    assert len(calls) == 2
