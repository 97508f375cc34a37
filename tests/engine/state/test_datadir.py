"""The data directory: private, and of one engine at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sbx_jupyter.engine.state.datadir import DataDir
from sbx_jupyter.engine.state.mount_point import MARK
from sbx_jupyter.errors import FailedPreconditionError, InternalError


def test_the_directory_is_private(tmp_path: Path):
    (tmp_path / "data").mkdir(mode=0o755)
    directory = DataDir(tmp_path / "data")

    directory.open()

    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    directory.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")
def test_the_directory_of_another_user_is_refused(tmp_path: Path):
    (tmp_path / "data").mkdir(mode=0o777)
    os.chown(tmp_path / "data", 1004, 1004)

    with pytest.raises(FailedPreconditionError, match="belongs to the user with id 1004"):
        DataDir(tmp_path / "data").open()

    assert list((tmp_path / "data").iterdir()) == []


def test_a_second_engine_is_told_who_has_it(tmp_path: Path):
    first, second = DataDir(tmp_path), DataDir(tmp_path)
    first.open()

    with pytest.raises(FailedPreconditionError, match=f"pid {os.getpid()}"):
        second.open()

    first.close()
    second.open()
    second.close()


def test_a_lock_that_was_moved_away_with_its_directory_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "data").mkdir()
    flock = fcntl.flock

    def move_first(*arguments: int) -> None:
        (tmp_path / "data").rename(tmp_path / "old")
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "engine.lock").touch()
        flock(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", move_first)
        with pytest.raises(FailedPreconditionError, match="is being moved"):
            DataDir(tmp_path / "data").open()

    assert [path.name for path in (tmp_path / "data").iterdir()] == ["engine.lock"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "\x00"])
def test_a_damaged_mark_of_a_mount_point_is_no_data_directory_either(tmp_path: Path, text: str):
    (tmp_path / MARK).write_text(text)
    with pytest.raises(FailedPreconditionError, match=MARK):
        DataDir(tmp_path).open()
    assert [path.name for path in tmp_path.iterdir()] == [MARK]


def test_a_file_in_its_place_is_reported(tmp_path: Path):
    (tmp_path / "data").write_text("")

    with pytest.raises(InternalError, match="data directory"):
        DataDir(tmp_path / "data").open()


@pytest.mark.skipif(shutil.which("chattr") is None, reason="chattr of e2fsprogs is missing")
def test_sandboxes_are_spread_over_the_disk_where_the_file_system_can(tmp_path: Path):
    data_dir = DataDir(tmp_path / "data")
    for _ in range(2):  # asking again does no harm
        data_dir.open()
        data_dir.close()

    probe = tmp_path / "probe"
    probe.mkdir()
    can = subprocess.run(["chattr", "+T", str(probe)], capture_output=True, check=False)
    for directory in (data_dir.sandboxes, data_dir.path / "run", data_dir.layers):
        shown = subprocess.check_output(["lsattr", "-d", str(directory)], text=True)
        assert ("T" in shown.split()[0]) == (can.returncode == 0)
