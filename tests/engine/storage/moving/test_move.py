"""``jupyter sbx storage create`` moves what is in the data directory, or leaves it as it was."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sbx_jupyter.agent.procfs import boot_id, start_time_of
from sbx_jupyter.cli import main, storage, storage_move
from sbx_jupyter.cli.moved_bytes import MovedBytes
from sbx_jupyter.engine.state.datadir import DataDir
from sbx_jupyter.engine.state.mount_point import MARK, MountPoint
from sbx_jupyter.errors import FailedPreconditionError
from sbx_jupyter.isolation.kernel import subvolumes, syscalls
from sbx_jupyter.isolation.trees import copying
from sbx_jupyter.isolation.trees.survey import survey
from tests.engine.storage.moving.conftest import (
    OTHER,
    OWNER,
    SANDBOX,
    VOLUME,
    World,
    check_moved,
    described,
)
from tests.engine.storage.test_storage import missing


@pytest.mark.parametrize("kind", ["btrfs", "xfs"])
def test_everything_is_moved_and_the_old_data_kept(
    world: World, kind: storage.Kind, capsys: pytest.CaptureFixture[str]
):
    if why := missing(kind):
        pytest.skip(why)

    assert world.run("--filesystem", kind) == 0, capsys.readouterr().err

    check_moved(world)
    for name in (SANDBOX, OTHER, VOLUME):
        assert subvolumes.is_subvolume(world.data / name) == (kind == "btrfs")
    said = capsys.readouterr().out
    assert f"  rm -r {world.before}\n" in said
    assert f"{world.image} {world.data} {kind} loop" in said
    with pytest.raises(FailedPreconditionError, match="file system of its own"):
        storage_move.move(storage.Plan(world.image, world.data, 400 << 20), print)


def test_what_is_not_mounted_after_a_restart_is_no_data_directory(
    world: World, capsys: pytest.CaptureFixture[str]
):
    assert world.run() == 0
    subprocess.run(["umount", str(world.data)], check=True)

    with pytest.raises(FailedPreconditionError) as caught:
        DataDir(world.data).open()
    command = caught.value.message.partition("as root: ")[2].partition(" (jupyter")[0]
    assert world.run("--no-mount") == 1, "others than root are told the same"
    assert command in capsys.readouterr().err
    assert os.listdir(world.data) == [MARK]

    subprocess.run(command, shell=True, check=True)
    check_moved(world)


def test_a_missing_image_is_named_with_the_way_back(
    world: World, capsys: pytest.CaptureFixture[str]
):
    assert world.run() == 0
    subprocess.run(["umount", str(world.data)], check=True)
    world.image.unlink()

    assert world.run() == 1

    said = capsys.readouterr().err
    assert f"{world.image} is missing" in said
    assert str(world.before) in said


def test_an_engine_that_runs_is_not_moved(world: World, capsys: pytest.CaptureFixture[str]):
    engine = DataDir(world.data)
    engine.open()
    try:
        assert world.run() == 1
    finally:
        engine.close()
    said = capsys.readouterr().err
    assert f"in use by another engine, pid {os.getpid()}" in said
    assert "jupyter sbx stop" in said
    assert not world.image.exists()


def test_no_engine_starts_while_the_data_is_copied(world: World, monkeypatch: pytest.MonkeyPatch):
    copy = copying.Copier.copy
    refused: list[str] = []

    def try_to_start(*arguments: Any) -> None:
        if not refused:
            with pytest.raises(FailedPreconditionError) as caught:
                DataDir(world.data).open()
            refused.append(caught.value.message)
        copy(*arguments)

    monkeypatch.setattr(copying.Copier, "copy", try_to_start)
    assert world.run() == 0
    assert "in use" in refused[0]


def test_sandboxes_that_outlive_their_engine_are_not_moved(
    world: World, capsys: pytest.CaptureFixture[str]
):
    cage = {
        "pid": os.getpid(),
        "start_time": start_time_of(os.getpid()),
        "boot_id": boot_id(),
        "writable": str(world.data / SANDBOX),
        "group": {},
        "kept": False,
    }
    record = world.data / "cages" / "i0123456789abcdefghij"
    record.write_bytes(msgspec.json.encode(cage))
    assert world.run() == 1
    assert "1 sandboxes" in (said := capsys.readouterr().err)
    assert "i0123456789abcdefghij" in said

    record.write_bytes(msgspec.json.encode({**cage, "boot_id": "of another start"}))
    assert world.run() == 0, capsys.readouterr().err


@pytest.mark.long
def test_too_little_space_is_told_before_anything_is_made(
    world: World, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    (world.data / "large").write_bytes(os.urandom(250 << 20))
    world.described = described(world.data)
    assert world.run(size="300M") == 1
    assert "choose at least this --size" in capsys.readouterr().err
    assert world.is_as_before()

    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300M", "small", str(small)], check=True)
    try:
        assert world.run("--path", str(small / "image"), size="1G") == 1
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
    said = capsys.readouterr().err
    assert "300.0 MiB are free" in said
    assert "MiB are missing" in said
    assert world.is_as_before()


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "choose a larger --size"),
        (OSError(errno.EIO, "Input/output error"), 1, "cannot be copied"),
    ],
)
def test_a_copy_that_fails_or_is_interrupted_leaves_all_as_it_was(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: BaseException,
    code: int,
    said: str,
):
    def fail(*arguments: Any) -> None:
        raise failure

    open_before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(copying.Copier, "copy", fail)
        assert world.run() == code
    assert said in capsys.readouterr().err
    assert world.is_as_before()
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert world.run() == 0, "there is nothing in the way of another try"


def test_a_copy_that_lacks_something_is_not_used(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    copy = copying.Copier.copy

    def forget_one(self: Any, source: int, target: int, place: Any, name: str, *more: Any) -> None:
        if name != "second":
            copy(self, source, target, place, name, *more)

    monkeypatch.setattr(copying.Copier, "copy", forget_one)
    assert world.run() == 1
    assert "the copy is not complete" in capsys.readouterr().err
    assert world.is_as_before()


def test_a_mount_that_fails_in_the_end_puts_the_old_data_back(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(syscalls, "move_mount", refuse)
    assert world.run() == 1
    assert "cannot be mounted here" in capsys.readouterr().err
    assert world.is_as_before()


def test_what_an_earlier_move_kept_is_not_overwritten(
    world: World, capsys: pytest.CaptureFixture[str]
):
    world.before.mkdir()
    (world.before / "engine.db").touch()
    assert world.run() == 1
    assert f"{world.before} is there already" in capsys.readouterr().err
    assert (world.before / "engine.db").exists()


def test_an_image_of_somebody_else_is_left_alone(world: World, capsys: pytest.CaptureFixture[str]):
    world.image.write_text("other")
    assert world.run() == 1
    assert "is there already" in capsys.readouterr().err
    assert world.image.read_text() == "other"


def test_the_data_of_an_ordinary_user_stays_theirs(
    world: World, capsys: pytest.CaptureFixture[str]
):
    os.chown(world.data, OWNER, OWNER)
    assert world.run() == 0, capsys.readouterr().err
    check_moved(world)
    for path in (world.data, world.before):
        assert path.stat().st_uid == OWNER
    assert world.image.stat().st_uid == 0
    subprocess.run(["umount", str(world.data)], check=True)
    assert world.data.stat().st_uid == OWNER, "their engine can read what the mark says"
    assert (world.data / MARK).stat().st_mode & 0o777 == 0o644


def test_a_mark_that_another_user_wrote_is_not_followed(
    world: World, capsys: pytest.CaptureFixture[str]
):
    forged = MountPoint(image="/etc/shadow", kind="btrfs", command="true", is_whole=True)
    (world.data / MARK).write_bytes(msgspec.json.encode(forged))
    os.chown(world.data / MARK, OWNER, OWNER)
    assert world.run() == 1
    assert "another user wrote" in capsys.readouterr().err
    assert not os.path.ismount(world.data)


def test_a_directory_that_holds_nothing_leaves_nothing_behind(
    world: World, capsys: pytest.CaptureFixture[str]
):
    shutil.rmtree(world.data)
    assert world.run() == 0, capsys.readouterr().err
    assert os.path.ismount(world.data)
    assert not world.before.exists()
    assert "rm -r" not in capsys.readouterr().out
    engine = DataDir(world.data)
    engine.open()
    engine.close()


def test_without_root_the_words_say_who_can_move_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    if missing("btrfs").startswith("needs mkfs"):
        pytest.skip("needs mkfs.btrfs")
    monkeypatch.setattr(storage, "may_mount", lambda: False)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "engine.db").touch()

    assert main.main(["storage", "create", "--size", "1G", "--data-dir", f"{tmp_path}/data"]) == 1

    said = capsys.readouterr().err
    assert "is not empty" in said
    assert f"sudo {sys.executable} -P -m sbx_jupyter.cli.main storage create" in said
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_long_copy_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch):
    lines: list[str] = []
    now = [0.0]
    monkeypatch.setattr("sbx_jupyter.cli.moved_bytes.time.monotonic", lambda: now[0])
    shown = MovedBytes(400 << 20, lines.append)
    for _ in range(4):
        shown.add(100 << 20)
        now[0] += 1
    shown.close()
    assert lines == [" 50 %: 200.0 MiB of 400.0 MiB copied", "100 %: 400.0 MiB of 400.0 MiB copied"]


def test_a_survey_finds_what_a_copy_lacks(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / name / "sandboxes" / "a").mkdir(parents=True)
        (tmp_path / name / "file").write_text("text")
        (tmp_path / name / "again").hardlink_to(tmp_path / name / "file")
        (tmp_path / name / "sandboxes" / "a" / "link").symlink_to("nowhere")
    first = survey(str(tmp_path / "one"))
    assert (first.folders, first.files, first.others, first.again, first.content) == (2, 2, 1, 1, 8)
    assert first.differences(survey(str(tmp_path / "two"))) == []

    (tmp_path / "two" / "again").unlink()
    (tmp_path / "two" / "again").write_text("longer")
    assert first.differences(survey(str(tmp_path / "two"))) == [
        "0 second names of files instead of 1",
        "10 bytes instead of 8",
    ]
