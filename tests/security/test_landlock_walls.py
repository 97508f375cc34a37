"""What the Landlock tier refuses by filter, by ceiling and by how it is set up."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Any

import pytest

from tests.security.test_siege import PYTHON, UID, missing

SCRIPT = Path(__file__).with_name("landlock_walls.py")
MOST_PROCESSES = 3500
"""Of the user, whatever the test does: so many that nothing here needs more."""

pytestmark = pytest.mark.skipif(missing("landlock") is not None, reason=str(missing("landlock")))


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    home = Path(tempfile.mkdtemp(prefix="sbx-walls-"))
    home.chmod(0o755)
    os.chown(home, UID, UID)
    # Files, as a process that is left over would keep a pipe open and the test waiting.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            status = _attack(home, out, err)
        finally:
            shutil.rmtree(home)
        out.seek(0)
        err.seek(0)
        assert status == 0, err.read()
        return json.loads(out.read())


def _attack(home: Path, out: IO[str], err: IO[str]) -> int:
    return subprocess.run(
        ["prlimit", f"--nproc={MOST_PROCESSES}", "setpriv", "--reuid", str(UID), "--regid",
         str(UID), "--clear-groups", PYTHON, "-B", str(SCRIPT), str(home), "bomb"],
        stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=120, cwd="/", check=False,
    ).returncode  # fmt: skip


def test_only_connected_pairs_of_sockets_can_be_made(seen: dict[str, Any]) -> None:
    lines = seen["datagrams"]
    assert not [line for line in lines if line.startswith("heard") or "Traceback" in line]
    refused = {int(line.split()[0]) for line in lines if " refused " in line}
    assert refused == {*range(16)} - {1, 5}
    for kind in (1, 5):
        assert f"{kind} sendto PermissionError {errno.EPERM}" in lines
        assert f"{kind} connect OSError {errno.EISCONN}" in lines  # says the keeper
        assert f"{kind} bind OSError {errno.EINVAL}" in lines
        assert f"{kind} plain made b'y'" in lines
    assert f"inet OSError {errno.EAFNOSUPPORT}" in lines
    assert f"tipc OSError {errno.EAFNOSUPPORT}" in lines
    assert "other []" in lines


def test_the_kernel_stops_a_bomb_that_nobody_watches(seen: dict[str, Any]) -> None:
    assert 512 <= int(seen["ceiling"]) < 2000
    assert seen["raised"] == ""
    assert 40 < int(seen["bomb"]) < int(seen["ceiling"])


def test_set_up_writes_through_no_link(seen: dict[str, Any]) -> None:
    assert seen["links"] == "kept[]"


def test_a_killed_keeper_leaves_no_process(seen: dict[str, Any]) -> None:
    assert seen["keepers"] == {"rounds": 50, "left": []}
