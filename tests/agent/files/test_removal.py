"""Removing trees that hostile programs made."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from sbx_jupyter.agent.files.removal import remove

CHECKOUT = Path(__file__).parents[3]


def nest(top: Path, depth: int) -> None:
    """Make a directory in a directory in a directory, with a file in every hundredth."""
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for level in range(depth):
        os.mkdir("d", dir_fd=fd)
        if level % 100 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)


@pytest.mark.long
def test_a_tree_of_any_depth_is_removed_with_few_descriptors(tmp_path: Path) -> None:
    nest(tmp_path / "deep", 5_000)  # far beyond PATH_MAX and the limit of recursion
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(fd) for fd in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 80, before[1]))
    try:
        remove(str(tmp_path / "deep"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert list(tmp_path.iterdir()) == []


def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    remove("tree", directory=(fd := os.open(tmp_path, os.O_RDONLY)))
    os.close(fd)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (tmp_path / "outside/kept").exists()


def test_a_removal_can_be_stopped_and_done_again(tmp_path: Path) -> None:
    nest(tmp_path / "tree", 300)
    steps = iter(range(50))

    def step() -> None:
        next(steps)

    with pytest.raises(StopIteration):
        remove(str(tmp_path / "tree"), step)
    assert (tmp_path / "tree").exists()
    remove(str(tmp_path / "tree"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("setpriv") is None or not Path("/usr/bin/python3").exists(),
    reason="needs root, setpriv and a Python for every user, to become another user",
)
def test_directories_closed_to_their_owner_are_removed() -> None:
    code = (
        "import os, sys, tempfile\n"
        f"sys.path.insert(0, {str(CHECKOUT)!r})\n"
        "from sbx_jupyter.agent.files.removal import remove\n"
        "top = tempfile.mkdtemp()\n"
        "for mode in (0, 0o500, 0o600):\n"
        "    os.makedirs(f'{top}/{mode}/inner')\n"
        "    open(f'{top}/{mode}/file', 'w').close()\n"
        "    os.chmod(f'{top}/{mode}/inner', mode)\n"
        "    os.chmod(f'{top}/{mode}', mode)\n"
        "remove(top, opens_closed=True)\n"
        "print(os.path.exists(top))\n"
    )
    done = subprocess.run(
        ["setpriv", "--reuid", "1003", "--regid", "1003", "--clear-groups", "/usr/bin/python3",
         "-B", "-c", code],
        capture_output=True, text=True, timeout=60, cwd="/", check=False,
    )  # fmt: skip
    assert done.stdout == "False\n", done.stderr
