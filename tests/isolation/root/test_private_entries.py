"""What sandboxes do not see of the directories that they are shown of the host."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.isolation.kernel import landlock
from sbx_jupyter.isolation.root import rootfs, stock_plan
from sbx_jupyter.isolation.root.private_entries import private_entries, split

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).with_name("with_private_entries.py")
PYTHON = "/usr/bin/python3"
UID = 1002


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A prefix that everybody may read."""
    path = tmp_path / "prefix"
    (path / "lib").mkdir(parents=True)
    (path / "lib/module.py").write_text("public")
    path.chmod(0o755)
    return path


def hidden(prefix: Path, *needed: str) -> list[str]:
    return private_entries(str(prefix), "/opt/python", [f"/opt/python/{path}" for path in needed])


def add(path: Path, text: str = "", mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def test_nothing_is_hidden_of_a_prefix_that_holds_nothing_private(prefix: Path) -> None:
    (prefix / "lib/link").symlink_to("/etc/shadow")
    assert hidden(prefix) == []


def test_what_others_may_not_read_is_hidden(prefix: Path) -> None:
    add(prefix / "lib/private", mode=0o600)
    add(prefix / "lib/of-group", mode=0o640)
    add(prefix / "bin/only-executed", mode=0o711)
    add(prefix / "closed/inner")
    add(prefix / "unlisted/inner")
    (prefix / "closed").chmod(0o750)
    (prefix / "unlisted").chmod(0o711)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(prefix / "lib/socket"))
    assert hidden(prefix) == [
        "bin/only-executed", "closed", "lib/of-group", "lib/private", "lib/socket", "unlisted",
    ]  # fmt: skip


def test_credentials_are_hidden_whatever_their_mode(prefix: Path) -> None:
    add(prefix / "pip.conf")
    add(prefix / "etc/jupyter/server.json")
    add(prefix / "etc/npmrc")
    add(prefix / "share/jupyter/kernel.json")
    add(prefix / "lib/.netrc")
    add(prefix / "lib/private.pem", "-----BEGIN RSA PRIVATE KEY-----")
    add(prefix / "lib/public.pem", "-----BEGIN CERTIFICATE-----")
    assert hidden(prefix) == [
        "etc/jupyter", "etc/npmrc", "lib/.netrc", "lib/private.pem", "pip.conf",
    ]  # fmt: skip


def test_a_system_s_virtual_environments_are_hidden_but_the_engine_s_own(prefix: Path) -> None:
    for name in ("mine", "other"):
        add(prefix / f"share/venvs/{name}/pyvenv.cfg")
        add(prefix / f"share/venvs/{name}/lib/module.py")
        add(prefix / f"share/venvs/{name}/pip.conf")
    assert hidden(prefix, "share/venvs/mine") == [
        "share/venvs/mine/pip.conf", "share/venvs/other",
    ]  # fmt: skip


def test_of_conda_only_the_environment_of_the_engine_is_shown(prefix: Path) -> None:
    for name in ("conda-meta/history", "pkgs/a/b", ".condarc"):
        add(prefix / name)
    for name in ("mine", "other"):
        add(prefix / f"envs/{name}/conda-meta/history")
        add(prefix / f"envs/{name}/lib/module.py")
    assert hidden(prefix, "envs/mine") == [
        ".condarc", "conda-meta", "envs/mine/conda-meta", "envs/other", "pkgs",
    ]  # fmt: skip
    assert hidden(prefix) == [".condarc", "conda-meta", "envs", "pkgs"]


def test_of_a_home_directory_that_is_a_prefix_only_the_prefix_is_shown(prefix: Path) -> None:
    for name in (".bashrc", ".ssh/id_rsa", "Documents/letter", "share/man/man1/python.1"):
        add(prefix / name)
    assert hidden(prefix) == [".bashrc", ".ssh", "Documents"]


def test_modes_say_nothing_where_the_prefix_itself_is_closed(prefix: Path) -> None:
    (prefix / "lib/module.py").chmod(0o600)
    (prefix / "lib").chmod(0o700)
    add(prefix / "pip.conf", mode=0o600)
    prefix.chmod(0o700)
    assert hidden(prefix) == ["pip.conf"]


def test_what_lies_beside_hidden_entries_is_allowed_one_by_one(prefix: Path) -> None:
    add(prefix / "lib/private")
    add(prefix / "share/table")
    (prefix / "lib/link").symlink_to("private")
    whole, listed = split(["lib/private"], str(prefix))
    assert sorted(whole) == [f"{prefix}/lib/module.py", f"{prefix}/share"]
    assert listed == [f"{prefix}/", f"{prefix}/lib"]
    assert split([], str(prefix)) == ([str(prefix)], [])


def test_what_is_removed_during_the_search_is_not_hidden(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts of other programs would give each engine another stock layer."""
    for name in ("lib/module.pyc.1234", "lib/draft.pem"):
        add(prefix / name, "PRIVATE KEY")
    add(prefix / "share/draft/inner")
    scandir = os.scandir

    @contextlib.contextmanager
    def scan_and_remove(path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(path) as listing:
            found = list(listing)
        for entry in found:
            if "draft" in entry.name or entry.name.endswith(".1234"):
                shutil.rmtree(entry.path) if entry.is_dir() else os.unlink(entry.path)
        yield iter(found)

    monkeypatch.setattr(os, "scandir", scan_and_remove)
    assert hidden(prefix) == []


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to write files of the stock layer")
def test_an_unfinished_stock_layer_is_removed(tmp_path: Path) -> None:
    plan = stock_plan.plan_stock(real_users=True, host_root_mapped=True)
    unfinished = tmp_path / "stock/0123456789abcdef.1234"
    add(unfinished / "etc/passwd")
    target = tmp_path / "stock" / plan.fingerprint
    rootfs.build_stock(plan, target)
    assert os.listdir(target.parent) == [target.name]

    add(unfinished / "etc/passwd")
    rootfs.build_stock(plan, target)
    assert os.listdir(target.parent) == [target.name]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to write files of the stock layer")
def test_a_hidden_directory_that_the_stock_layer_needs_is_opaque(tmp_path: Path) -> None:
    plan = stock_plan.plan_stock(real_users=True, host_root_mapped=True)
    rootfs.build_stock(plan, tmp_path / "stock", ["/usr/local/bin", "/usr/share/doc"])
    assert os.getxattr(tmp_path / "stock/usr/local/bin", "user.overlay.opaque") == b"y"
    status = (tmp_path / "stock/usr/share/doc").lstat()
    assert stat.S_ISCHR(status.st_mode)
    assert status.st_rdev == 0


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that every user may enter."""
    path = Path(tempfile.mkdtemp(prefix="sbx-private-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.skipif(
    os.getuid() != 0 or not Path(PYTHON).exists() or shutil.which("setpriv") is None,
    reason="needs root, setpriv and a Python that every user may execute, to become another user",
)
@pytest.mark.parametrize("tier", ["root", "subordinate", "virtual", "landlock"])
def test_a_sandbox_reads_no_secret_beside_the_python_that_it_is_shown(
    home: Path, tier: str
) -> None:
    if tier == "landlock" and landlock.abi() < landlock.NEEDED_ABI:
        pytest.skip("needs Landlock")
    if tier == "subordinate" and shutil.which("newuidmap") is None:
        pytest.skip("needs newuidmap: apt-get install uidmap")
    setup, become, python = "umask 022", "", sys.executable
    if tier != "root":
        os.chown(home, UID, UID)
        become, python = f"setpriv --reuid {UID} --regid {UID} --clear-groups", PYTHON
    if tier == "subordinate":
        setup += _give_range(home)
    wanted = "landlock" if tier == "landlock" else "namespaces"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", f'{setup}\nexec {become} {python} -B "$0" "$1" {wanted}',
         str(SCRIPT), str(home)],
        capture_output=True, text=True, timeout=50, cwd="/", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    if tier in ("subordinate", "virtual"):
        assert seen["users"] == tier
    for user in ("root", "user"):
        assert seen[f"found by {user}"] == []
        assert seen[f"read by {user}"] == ""
        assert seen[f"public to {user}"] == "public" * 8
    if tier == "root":  # the kernel refuses what a start of the engine has not seen
        assert seen["made later"] == ""
    assert seen["python"] == "42"
    if tier != "landlock":  # where the page on the threat model says that locks are shared
        assert seen["locks seen"] == []


def _give_range(home: Path) -> str:
    accounts, ranges = home / "passwd", home / "subuid"
    name = "sbxprivate"
    accounts.write_text(
        Path("/etc/passwd").read_text() + f"{name}:x:{UID}:{UID}::/nonexistent:/bin/sh\n"
    )
    ranges.write_text(f"{name}:100000:65536\n")
    setup = f"\nmount --bind {accounts} /etc/passwd"
    for table in ("subuid", "subgid"):
        Path("/etc", table).touch()
        setup += f"\nmount --bind {ranges} /etc/{table}"
    return setup
