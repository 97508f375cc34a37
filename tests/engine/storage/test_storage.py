"""Disks of their own for the data directory: made, mounted, and used by real engines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sbx_jupyter.cli import main, sizes, storage
from sbx_jupyter.engine.engine import EngineConfig
from sbx_jupyter.engine.storage import capture
from sbx_jupyter.errors import FailedPreconditionError, InvalidArgumentError
from sbx_jupyter.isolation.kernel import subvolumes
from tests.engine.living import create, messages, run
from tests.engine.storage.test_snapshots import FILES, LOOK
from tests.engine.test_ordinary_user import PYTHON, SCRIPT, UID
from tests.engine_process import CHECKOUT
from tests.helped import engine_of
from tests.mounted_disk import mount
from tests.waiting import async_until

SIZE = 400 << 20
KINDS: tuple[storage.Kind, ...] = ("btrfs", "xfs")


def missing(kind: str) -> str:
    """What this machine lacks to mount such an image; empty when it lacks nothing."""
    if os.geteuid() != 0:
        return "needs root to mount"
    if shutil.which(f"mkfs.{kind}", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        return f"needs mkfs.{kind}"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices"
    return ""


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest) -> Iterator[storage.Plan]:
    """An image, mounted on an empty data directory."""
    if why := missing(request.param):
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="plat-disk-", dir="/tmp"))
    folder.chmod(0o755)
    plan = storage.Plan(folder / "image", folder / "data", SIZE, request.param)
    try:
        storage.make_image(plan)
        mount(plan)
    except FailedPreconditionError as error:
        shutil.rmtree(folder)
        pytest.skip(f"this machine mounts no {plan.kind}: {error.message}")
    yield plan
    subprocess.run(["umount", str(plan.data_dir)], check=True)
    shutil.rmtree(folder)


async def test_every_file_is_carried_by_snapshots_on_a_disk_of_its_own(disk: storage.Plan):
    engine = engine_of(EngineConfig(disk.data_dir, pool_size=1))
    await engine.start()
    try:
        assert engine.report.reflink
        source = await create(engine)
        await run(engine, source.sandbox_id, FILES)
        looked = await run(engine, source.sandbox_id, LOOK)
        for name in ("one", "two"):  # each on the layer of the one before
            await engine.snapshots.create(source.sandbox_id, name)
            await run(engine, source.sandbox_id, "echo later > ~/later")
            await engine.sandboxes.kill(source.sandbox_id)
            source = await create(engine, templateID=name)
            assert await run(engine, source.sandbox_id, LOOK) == looked
        forks = await engine.forks.create(source.sandbox_id, timeout=100, count=2)
        for fork in forks:
            assert not isinstance(fork, Exception)
            assert await run(engine, fork.sandbox_id, LOOK) == looked
        await engine.sandboxes.pause(source.sandbox_id, memory=False)
        await engine.sandboxes.connect(source.sandbox_id, 100)
        assert await run(engine, source.sandbox_id, LOOK) == looked
        for row in engine.sandboxes.rows():
            await engine.sandboxes.kill(row.sandbox_id)
        for name in ("one", "two"):
            await engine.templates.builder.remove(name)
        await async_until(lambda: not os.listdir(disk.data_dir / "layers"))
    finally:
        await engine.stop(kill_sandboxes=True)
    assert os.listdir(disk.data_dir / "layers") == []
    assert os.listdir(disk.data_dir / "sandboxes") == []


async def test_a_snapshot_takes_no_space_for_what_both_have(disk: storage.Plan):
    engine = engine_of(EngineConfig(disk.data_dir, pool_size=0))
    await engine.start()
    try:
        row = await create(engine)
        await run(engine, row.sandbox_id, "head -c 60M /dev/urandom > ~/big; sync")
        os.sync()
        before = shutil.disk_usage(disk.data_dir).used
        for _ in range(5):
            await engine.snapshots.create(row.sandbox_id)
        os.sync()
        after = shutil.disk_usage(disk.data_dir).used
    finally:
        await engine.stop(kill_sandboxes=True)
    assert after - before < 30 << 20


async def test_no_remedy_is_named_for_a_slow_snapshot_on_a_disk_that_shares_data(
    disk: storage.Plan, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(capture, "_SLOW", 0.0)
    engine = engine_of(EngineConfig(disk.data_dir, pool_size=0))
    await engine.start()
    try:
        row = await create(engine)
        await engine.snapshots.create(row.sandbox_id)
        assert not [text for text in messages(engine, row.sandbox_id) if "storage create" in text]
    finally:
        await engine.stop(kill_sandboxes=True)


async def test_a_build_on_a_disk_of_its_own_is_sealed_and_carried(disk: storage.Plan):
    """A step's files become a layer by a rename, which nothing can do out of a subvolume."""
    engine = engine_of(EngineConfig(disk.data_dir, pool_size=0))
    await engine.start()
    try:
        if disk.kind == "btrfs":
            row = await create(engine)
            (writable,) = (disk.data_dir / "sandboxes").iterdir()
            assert subvolumes.is_subvolume(writable)
            await engine.sandboxes.kill(row.sandbox_id)
        from sbx_jupyter.protocol.templates import BuildStart, Step, TemplateRequest

        asked = await engine.templates.builder.request(TemplateRequest(name="made"))
        step = Step(type="RUN", args=["echo made > /opt/made", "root"])
        start = BuildStart(from_template="base", steps=[step])
        await engine.templates.builder.start(asked.template_id, asked.build_id, start)

        def status() -> str:
            build = engine.store.builds.get(asked.build_id)
            return "" if build is None else build.status

        await async_until(lambda: status() in ("ready", "error"), timeout=60)
        assert status() == "ready"
        row = await create(engine, templateID="made")
        assert await run(engine, row.sandbox_id, "cat /opt/made") == "made"
    finally:
        await engine.stop(kill_sandboxes=True)


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("setpriv") is None or not Path(PYTHON).exists(),
    reason="needs setpriv and a Python that every user may execute, to become another user",
)
def test_an_ordinary_user_lives_on_a_disk_of_their_own(disk: storage.Plan):
    os.chown(disk.data_dir, UID, UID)
    home = disk.data_dir.with_name("home")
    home.mkdir()
    os.chown(home, UID, UID)
    paths = f"PYTHONPATH={CHECKOUT}:{sysconfig.get_path('purelib')}"
    environment = ["env", "-i", f"HOME={home}", f"PATH={os.environ['PATH']}", paths]
    user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]

    done = subprocess.run(
        [*user, *environment, PYTHON, "-B", SCRIPT, str(disk.data_dir), "auto"],
        capture_output=True,
        text=True,
        timeout=55,
        cwd="/",
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert '"snapshot": "kept"' in done.stdout
    assert '"forks": 2' in done.stdout
    assert '"left": []' in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_makes_an_image_and_says_how_to_mount_it(
    kind: storage.Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    if shutil.which(f"mkfs.{kind}", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        pytest.skip(f"needs mkfs.{kind}")
    data = tmp_path / "my data"
    arguments = ["storage", "create", "--size", "1G", "--filesystem", kind, "--no-mount"]

    code = main.main([*arguments, "--data-dir", str(data)])

    said = capsys.readouterr().out
    image = tmp_path / "my data.img"
    assert code == 0
    assert image.stat().st_size == 1 << 30
    assert image.stat().st_blocks * 512 < 200 << 20, "it is sparse"
    assert image.stat().st_mode & 0o077 == 0
    assert f"mount -o loop,noatime,discard '{image}' '{data}'".replace("'", "") in said.replace(
        "'", ""
    ).replace('"', "")
    assert f"my\\040data {kind} loop" in said
    assert main.main([*arguments, "--data-dir", str(data)]) == 1
    assert "is there already" in capsys.readouterr().err


def test_a_program_that_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    packages: dict[storage.Kind, str] = {"btrfs": "btrfs-progs", "xfs": "xfsprogs"}
    for kind, package in packages.items():
        plan = storage.Plan(tmp_path / "image", tmp_path / "data", SIZE, kind)
        with pytest.raises(FailedPreconditionError, match=f"mkfs.{kind}.*{package}"):
            storage.make_image(plan)
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_that_is_in_use_is_not_hidden(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "engine.db").touch()
    if missing("xfs").startswith("needs mkfs"):
        pytest.skip("needs mkfs.xfs")
    with pytest.raises(FailedPreconditionError, match="not empty"):
        storage.make_image(storage.Plan(tmp_path / "image", tmp_path / "data", SIZE, "xfs"))


@pytest.mark.parametrize("text", ["", "G", "-1G", "1.5G", "10X", "ten"])
def test_a_size_that_is_none_is_refused(text: str):
    with pytest.raises(InvalidArgumentError):
        sizes.parse_size(text)


def test_sizes_are_read_and_shown():
    assert [sizes.parse_size(text) for text in ("5", "1k", "2M", "50G")] == [
        5, 1024, 2 << 20, 50 << 30,
    ]  # fmt: skip
    assert [sizes.show_size(size) for size in (0, 1023, 1536, 5 << 30)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 GiB",
    ]  # fmt: skip


def test_what_a_path_needs_no_subvolume_for_is_a_plain_directory(tmp_path: Path):
    if sys.platform != "linux":
        pytest.skip("needs Linux")
    subvolumes.make_folder(tmp_path / "made")

    assert (tmp_path / "made").is_dir()
    assert not subvolumes.is_subvolume(tmp_path / "nowhere")


def test_an_image_that_does_not_fit_leaves_no_file_and_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if missing("btrfs").startswith("needs mkfs"):
        pytest.skip("needs mkfs.btrfs")

    def refuse(descriptor: int, size: int) -> None:
        raise OSError(27, "File too large")

    monkeypatch.setattr(os, "ftruncate", refuse)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="too large"):
        storage.make_image(storage.Plan(tmp_path / "image", tmp_path / "data", SIZE))
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_of_btrfs_has_quotas_from_the_start(disk: storage.Plan):
    limited = disk.data_dir / "limited"
    subvolumes.make_folder(limited, 1 << 20)
    quota = subvolumes.read_quota(limited)

    assert (quota is not None and quota.limit == 1 << 20) == (disk.kind == "btrfs")
    assert ("btrfs quota enable" in storage.mount_command(disk)) == (disk.kind == "btrfs")
