"""What a real engine has made works after its data directory was moved."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sbx_jupyter.cli import main, storage
from sbx_jupyter.engine.engine import Engine, EngineConfig
from sbx_jupyter.errors import FailedPreconditionError
from sbx_jupyter.isolation.kernel import subvolumes
from tests.engine.living import create, run
from tests.engine.storage.moving.conftest import mounts_none
from tests.engine.storage.test_snapshots import FILES, LOOK
from tests.engine.storage.test_storage import missing
from tests.helped import engine_of

pytestmark = pytest.mark.long

MOUNTED = {"volumeMounts": [{"name": "data", "path": "/volume"}]}


@pytest.fixture(params=["btrfs", "xfs"])
def kind(request: pytest.FixtureRequest) -> storage.Kind:
    if why := missing(request.param):
        pytest.skip(why)
    return request.param


@pytest.fixture
def data() -> Iterator[Path]:
    if why := missing("btrfs"):
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="plat-moved-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        if why := mounts_none(folder):
            pytest.skip(why)
        yield folder / "data"
    finally:
        while os.path.ismount(folder / "data"):
            subprocess.run(["umount", str(folder / "data")], check=True)
        shutil.rmtree(folder)


@asynccontextmanager
async def running(data: Path) -> AsyncIterator[Engine]:
    engine = engine_of(EngineConfig(data, pool_size=1))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop(kill_sandboxes=True)


@pytest.mark.timeout(120)
async def test_snapshots_volumes_and_paused_sandboxes_work_after_a_move(
    data: Path, kind: storage.Kind, capsys: pytest.CaptureFixture[str]
):
    command = ["storage", "create", "--size", "1G", "--filesystem", kind, "--data-dir", str(data)]
    async with running(data) as engine:
        await engine.attachments.volumes.create("data")
        source = await create(engine, **MOUNTED)
        await run(engine, source.sandbox_id, FILES)
        await run(engine, source.sandbox_id, "echo stored > /volume/file")
        looked = await run(engine, source.sandbox_id, LOOK)
        await engine.snapshots.create(source.sandbox_id, "kept")
        later = "echo later > ~/later; sudo rm -r /etc/skel"
        assert await run(engine, source.sandbox_id, later) == ""
        await engine.sandboxes.pause(source.sandbox_id, memory=False)
        assert main.main(command) == 1, "the engine runs"
        assert "in use by another engine" in capsys.readouterr().err

    assert main.main(command) == 0, capsys.readouterr().err

    async with running(data) as engine:
        assert engine.report.reflink
        await engine.sandboxes.connect(source.sandbox_id, 100)
        look_at_all = "cat ~/later /volume/file; ls /etc/skel 2>&1 | tail -c 26"
        assert await run(engine, source.sandbox_id, look_at_all) == (
            "later\nstored\nNo such file or directory"
        )
        copy = await create(engine, templateID="kept", **MOUNTED)
        assert await run(engine, copy.sandbox_id, LOOK) == looked
        await run(engine, copy.sandbox_id, "echo more >> /volume/file")
        (fork,) = await engine.forks.create(source.sandbox_id, timeout=100)
        assert not isinstance(fork, Exception)
        assert await run(engine, fork.sandbox_id, "cat ~/later /volume/file") == (
            "later\nstored\nmore"
        )
        snapshot = await engine.snapshots.create(source.sandbox_id)
        assert await run(engine, source.sandbox_id, "cat ~/later") == "later"
        from_paused = await create(engine, templateID=snapshot.snapshot_id)
        assert await run(engine, from_paused.sandbox_id, "cat ~/later") == "later"
    subprocess.run(["umount", str(data)], check=True)
    with pytest.raises(FailedPreconditionError, match="not mounted; as root: mount"):
        async with running(data):
            raise AssertionError("it began anew")


@pytest.mark.timeout(120)
async def test_a_sandbox_paused_before_the_move_is_forked_without_a_copy_after_it(data: Path):
    command = ["storage", "create", "--size", "1G", "--data-dir", str(data)]
    async with running(data) as engine:
        source = await create(engine)
        await run(engine, source.sandbox_id, "head -c 60M /dev/urandom > ~/big")
        await engine.sandboxes.pause(source.sandbox_id, memory=False)
    assert main.main(command) == 0

    async with running(data) as engine:
        await engine.sandboxes.connect(source.sandbox_id, 100)
        os.sync()
        before = shutil.disk_usage(data).used
        for _ in range(3):
            await engine.snapshots.create(source.sandbox_id)
        os.sync()
        assert shutil.disk_usage(data).used - before < 30 << 20
        folders = [*(data / "sandboxes").iterdir()]
        assert folders
        assert all(subvolumes.is_subvolume(folder) for folder in folders)
