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

from sbx_jupyter.isolation.kernel import landlock

from .kernel.test_system_calls import assert_refused

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).with_name("as_ordinary_user.py")
LANDLOCK_SCRIPT = Path(__file__).with_name("in_landlock.py")
PYTHON = "/usr/bin/python3"
UID = 61477

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


def run_as_user(home: Path, setup: str = "true", script: Path = SCRIPT) -> dict[str, Any]:
    """Run the script as the ordinary user, in a mount namespace where ``setup`` ran as root."""
    done = subprocess.run(
        [
            "unshare", "-m", "sh", "-ec",
            f"{setup}\nexec setpriv --reuid {UID} --regid {UID} --clear-groups "
            f'{PYTHON} -B "$0" "$1"',
            str(script), str(home / "data"),
        ],
        capture_output=True, text=True, timeout=240, cwd="/", check=False,
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


@needs_root
@pytest.mark.skipif(landlock.abi() < landlock.NEEDED_ABI, reason="needs Landlock")
@pytest.mark.timeout(270)
def test_landlock_confines_a_sandbox_without_any_namespace(home: Path) -> None:
    # Should the keeper come too late, the machine of the test is spared.
    seen = run_as_user(home, "prlimit --pid $$ --nproc=3000", script=LANDLOCK_SCRIPT)
    assert_refused(seen["calls"])
    assert seen["python"] == "42"
    assert seen["git"] == seen["sudo"] == "ok"
    assert seen["home"].endswith("/upper/home/user\nmade")
    assert "/upper/tmp/" in seen["tmp"]
    for name in ("secret", "sibling", "list", "write", "environ", "terminals", "store"):
        assert "Permission denied" in seen[name], name
    for name in ("kill_engine", "kill_keeper", "userns"):
        assert "not permitted" in seen[name], name
    # The loopback interface of the machine has a listener there, that of the sandbox has none.
    assert "Connection refused" in seen["tcp"]
    assert "Protocol not supported" in seen["udp"]
    assert "Permission denied" in seen["unix"]
    assert seen["serve"] == "200"
    assert seen["heard"] is False
    assert "f" in seen["listed"]
    assert seen["pty"] == "terminal"
    assert seen["processes"] >= 3
    assert seen["frozen"] is True
    # Their number is only watched, ten times a second: what is promised is that a bomb ends.
    assert seen["bombs"] == [-9, -9]
    assert seen["after_bomb"] == "alive"
    assert seen["left"] == seen["dirs"] == []


@needs_root
def test_a_machine_without_user_namespaces_is_told_what_to_change(home: Path) -> None:
    # As on such a machine: a namespace may make no further ones.
    code = (
        "from sbx_jupyter.isolation.kernel import syscalls, users\n"
        "uid, gid = os.getuid(), os.getgid()\n"
        "syscalls.unshare(syscalls.CLONE_NEWUSER)\n"
        "Path('/proc/self/setgroups').write_text('deny')\n"
        "users.write_maps(os.getpid(), f'{uid} {uid} 1', f'{gid} {gid} 1')\n"
        "Path('/proc/sys/user/max_user_namespaces').write_text('0')\n"
    )
    report = detected(home, code)
    assert report["tier"] in ("landlock", "none")
    remedies = [missing["remedy"] for missing in report["missing"]]
    assert "sysctl -w user.max_user_namespaces=15000" in remedies


@needs_root
@pytest.mark.skipif(landlock.abi() < landlock.NEEDED_ABI, reason="needs Landlock")
def test_landlock_is_not_offered_where_calls_cannot_be_supervised(home: Path) -> None:
    # Below a program that answers system calls itself, nobody else can.
    code = (
        "from sbx_jupyter.agent import system\n"
        "from sbx_jupyter.isolation.kernel import bpf, syscalls\n"
        "syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)\n"
        "system.install_filter(bpf.op(bpf.RETURN, bpf.ALLOWED))\n"
    )
    report = detected(home, code)
    assert report["landlock_abi"] == 0
    assert any("cannot be held" in missing["what"] for missing in report["missing"])


@needs_root
def test_namespaces_that_can_be_made_and_not_used_count_as_refused(home: Path) -> None:
    """As by AppArmor, which lets programs make one and then forbids what it is for."""
    closed = "mount --bind /proc /proc\nmount -o remount,bind,ro /proc"
    report = detected(home, "", setup=closed)
    assert report["tier"] in ("landlock", "none")
    told = [missing["what"] for missing in report["missing"]]
    assert "user namespaces are refused ([Errno 30] Read-only file system" in " ".join(told)


def detected(home: Path, before: str, setup: str = "true") -> dict[str, Any]:
    """What the ordinary user's process finds after it ran ``before``, and root ``setup``."""
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        f"{before}"
        "from sbx_jupyter.isolation.tiers import detect\n"
        "import json; print(json.dumps(detect(Path(sys.argv[1])).to_json()))"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", f'{setup}\nexec "$@"', "sh",
         "setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", PYTHON, "-B",
         "-c", code, str(home), str(SCRIPT.parent.parent.parent)],
        capture_output=True, text=True, timeout=60, cwd="/", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_sound(seen: dict[str, Any]) -> None:
    """What holds for either kind of users."""
    assert_refused(seen["calls"])
    assert seen["sudo"] == seen["su"] == "0"
    assert seen["names"].split() == ["user", "root", "root", "user"]
    if shutil.which("dpkg-deb"):
        assert seen["package"] == "hello"
    assert seen["python"] == "42"
    assert seen["pip"] == seen["chown"] == seen["closed"] == "ok"
    assert seen["usr"] == "x"
    assert seen["mount"] == seen["userns"] == seen["agent"] == "denied"
    assert seen["home"] == "*\nuser"  # no password of the host
    assert 10 < int(seen["bomb"]) < 96
    assert 8 << 20 <= seen["held"] < 9 << 20
    assert int(seen["pids"]) < 12
    assert seen["left"] is False
