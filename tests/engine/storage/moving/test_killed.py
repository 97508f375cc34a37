"""A move that is killed leaves the old data in use or the new, and another call goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from sbx_jupyter.engine.state.datadir import DataDir
from sbx_jupyter.engine.state.mount_point import MARK
from sbx_jupyter.errors import FailedPreconditionError
from tests.engine.storage.moving import killed_move
from tests.engine.storage.moving.conftest import (
    World,
    check_moved,
)
from tests.engine_process import CHECKOUT

pytestmark = pytest.mark.long

POINTS = [
    ("sbx_jupyter.cli.storage_move", "write_mark", "before", 1),
    ("sbx_jupyter.engine.state.mount_point", "os.rename", "before", 1),
    ("sbx_jupyter.cli.storage_move", "write_mark", "after", 1),
    ("sbx_jupyter.cli.storage", "make_file", "after", 1),
    ("sbx_jupyter.cli.storage_move", "write_mark", "after", 2),
    ("sbx_jupyter.cli.storage", "format_file", "after", 1),
    ("sbx_jupyter.cli.storage", "mount_apart", "after", 1),
    ("sbx_jupyter.isolation.trees.copying", "Copier.copy", "before", 4),
    ("sbx_jupyter.cli.storage_move", "_fill", "after", 1),
    ("sbx_jupyter.cli.storage_move", "_sync", "after", 1),
    ("sbx_jupyter.cli.storage_move", "write_mark", "after", 3),
    ("sbx_jupyter.cli.storage_move", "_exchange", "after", 1),
    ("sbx_jupyter.cli.storage_move", "_swap", "after", 1),
]
IN_USE_AFTERWARDS = {"_exchange": "marked", "_swap": "new"}


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[1]}-{point[2]}-{point[3]}")
def test_a_move_that_is_killed_leaves_one_whole_and_goes_on_when_run_again(
    world: World, point: tuple[str, str, str, int], capsys: pytest.CaptureFixture[str]
):
    arguments = [*map(str, point), *world.command(size="600M")]
    killed = subprocess.run(
        [sys.executable, killed_move.__file__, *arguments],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    match IN_USE_AFTERWARDS.get(point[1], "old"):
        case "old":
            assert not os.path.ismount(world.data)
            assert world.is_whole(), "an engine could go on with it"
            assert world.run() == 0, capsys.readouterr().err
            said = capsys.readouterr().out
            assert "cut short; the data is as it was" in said
        case "marked":
            with pytest.raises(FailedPreconditionError, match="not mounted; as root: mount"):
                DataDir(world.data).open()
            assert sorted(os.listdir(world.data)) == [MARK]
            assert world.run() == 0, capsys.readouterr().err
            assert "which is not mounted" in capsys.readouterr().out
    check_moved(world)
    there = sorted(path.name for path in world.data.parent.iterdir())
    assert there == ["data", "data.before", "data.img"]
