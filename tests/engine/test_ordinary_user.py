"""The engine without root, in every tier that the machine gives to an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine_process import CHECKOUT

SCRIPT = Path(__file__).with_name("as_ordinary_user.py")
PYTHON = "/usr/bin/python3"
UID = 1003

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        os.getuid() != 0 or shutil.which("setpriv") is None or not Path(PYTHON).exists(),
        reason="needs root, setpriv and a Python that every user may execute, to become a user",
    ),
]


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="plat-user-", dir="/tmp"))
    os.chown(path, UID, UID)
    yield path
    shutil.rmtree(path)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("tier", ["auto", "landlock", "none"])
def test_a_life_of_sandboxes_needs_no_root(home: Path, tier: str):
    paths = f"PYTHONPATH={CHECKOUT}:{sysconfig.get_path('purelib')}"
    environment = ["env", "-i", f"HOME={home}", f"PATH={os.environ['PATH']}", paths]
    user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]

    done = subprocess.run(
        [*user, *environment, PYTHON, "-B", SCRIPT, str(home / "data"), tier],
        capture_output=True,
        text=True,
        timeout=170,
        cwd="/",
    )

    if "IsolationError" in done.stderr:
        pytest.skip(f"this machine does not give the tier: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert tier in ("auto", seen["tier"])
    networks = {"namespaces": "proxy", "landlock": "proxy", "none": "host"}
    assert seen["network"] == networks[seen["tier"]]
    said = " ".join(seen["said"])
    assert "has no network" not in said
    assert ("its network rules hold nothing" in said) is (seen["tier"] == "none")
    if seen["tier"] != "landlock":  # which does not show it
        assert seen["adjustment"] == "100"
    assert seen["paused"] == "full"
    before, after = map(int, seen["ticks"])
    assert 0 < before < after
    assert (seen["file"], seen["snapshot"], seen["forks"]) == ("kept", "kept", 2)
    assert (seen["lost"], seen["kept"]) == ("filesystem", "kept")
    assert seen["left"] == []
