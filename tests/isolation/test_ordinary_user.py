"""The namespace tier without root: one id, and with a range of subordinate ids."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).with_name("as_ordinary_user.py")
PYTHON = "/usr/bin/python3"
UID = 1001

needs_root = pytest.mark.skipif(
    os.getuid() != 0 or not Path(PYTHON).exists() or shutil.which("setpriv") is None,
    reason="needs root, setpriv and a Python that every user may execute, to become another user",
)
needs_newuidmap = pytest.mark.skipif(
    shutil.which("newuidmap") is None, reason="needs newuidmap: apt-get install uidmap"
)


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that belongs to an ordinary user."""
    path = Path(tempfile.mkdtemp(prefix="sbx-isolation-user-"))
    os.chown(path, UID, UID)
    yield path
    shutil.rmtree(path)


def run_as_user(home: Path, setup: str = "true") -> dict[str, Any]:
    """Run the script as the ordinary user, in a mount namespace where ``setup`` ran as root."""
    done = subprocess.run(
        [
            "unshare", "-m", "sh", "-ec",
            f"{setup}\nexec setpriv --reuid {UID} --regid {UID} --clear-groups "
            f'{PYTHON} -B "$0" "$1"',
            str(SCRIPT), str(home / "data"),
        ],
        capture_output=True, text=True, timeout=50, cwd="/", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_root
def test_one_id_is_enough_for_a_sandbox(home: Path) -> None:
    seen = run_as_user(home)
    assert seen["tier"] == "namespaces"
    assert seen["users"] == "virtual"
    assert_sound(seen)
    assert seen["id"] == seen["root"] == "0"


@needs_root
@needs_newuidmap
def test_subordinate_ids_give_two_real_users(home: Path) -> None:
    accounts, ranges = home / "passwd", home / "subuid"
    accounts.write_text(
        Path("/etc/passwd").read_text() + f"sbxtest:x:{UID}:{UID}::/nonexistent:/bin/sh\n"
    )
    ranges.write_text("sbxtest:100000:65536\n")
    setup = f"mount --bind {accounts} /etc/passwd"
    for name in ("subuid", "subgid"):
        Path("/etc", name).touch()
        setup += f"\nmount --bind {ranges} /etc/{name}"
    seen = run_as_user(home, setup)
    assert seen["users"] == "subordinate"
    assert_sound(seen)
    assert (seen["id"], seen["root"]) == ("1000", "0")


def assert_sound(seen: dict[str, Any]) -> None:
    """What holds for either kind of users."""
    assert seen["sudo"] == seen["su"] == "0"
    assert seen["python"] == "42"
    assert seen["pip"] == seen["chown"] == seen["closed"] == "ok"
    assert seen["usr"] == "x"
    assert seen["mount"] == seen["userns"] == seen["agent"] == "denied"
    assert seen["home"] == "user"
    assert 10 < int(seen["bomb"]) < 96
    assert int(seen["pids"]) < 12
    assert seen["left"] is False
