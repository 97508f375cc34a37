"""Changes of modes, times and attributes by way of the keeper, with nothing else around."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.isolation.confined.contained_paths import ContainedDirectory
from sbx_jupyter.isolation.kernel.processors import ProcessorAllocator

SCRIPT = Path(__file__).with_name("supervised.py")


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("supervised")
    (top / "inside").mkdir()
    (top / "outside").mkdir()
    file = top / "outside" / "file"
    file.write_text("x")
    os.setxattr(file, "user.there", b"1")
    return file


@pytest.fixture(scope="module")
def before(outside: Path) -> tuple[object, ...]:
    return look(outside)


@pytest.fixture(scope="module")
def seen(outside: Path, before: tuple[object, ...]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-B", SCRIPT, outside.parent.parent],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def look(file: Path) -> tuple[object, ...]:
    status = file.stat()
    return (status.st_mode, status.st_mtime_ns, status.st_ctime_ns, tuple(os.listxattr(file)))


def test_no_file_outside_can_be_changed_by_its_owner(
    seen: dict[str, Any], outside: Path, before: tuple[object, ...]
) -> None:
    assert seen["outside"] == {
        "read": "ok",
        "chmod": "EACCES",
        "fchmod": "EACCES",
        "utime": "EACCES",
        "futimens": "EACCES",
        "fsetxattr": "EACCES",
        "fremovexattr": "EACCES",
        "setxattr": "ENOTSUP",
        "get_flags": "ok",
        "set_flags": "ENOTTY",
        "lease": "EPERM",
        "pipe": "EACCES",
    }
    assert look(outside) == before


def test_modes_of_own_files_change_as_without_a_keeper(seen: dict[str, Any]) -> None:
    inside = seen["inside"]
    for name in ("chmod", "through_links", "dots", "slashes", "relative", "folder", "deleted"):
        assert inside[name] == "ok", name
    assert inside["mode"] == "0o100751"
    assert inside["mode_through_links"] == "0o100640"
    assert inside["deleted_mode"] == "0o100700"
    assert (inside["empty"], inside["empty_mode"]) == ("ok", "0o40711")


def test_what_is_wrong_is_told_as_the_kernel_tells_it(seen: dict[str, Any]) -> None:
    told = {
        name: seen["inside"][name]
        for name in ("missing", "not_a_folder", "no_descriptor", "bad_flags", "link_mode")
    }
    assert told == {
        "missing": "ENOENT",
        "not_a_folder": "ENOTDIR",
        "no_descriptor": "EBADF",
        "bad_flags": "EINVAL",
        "link_mode": "ENOTSUP",
    }
    assert seen["inside"].get("too_many", "EINVAL") == "EINVAL"


def test_times_of_own_files_change_to_the_nanosecond(seen: dict[str, Any]) -> None:
    inside = seen["inside"]
    assert inside["times"] == [1_000_000_007, 2_000_000_009]
    assert inside["times_of_link"] == [6, 2_000_000_009]
    assert inside["now"] == "ok"
    assert inside["time_omitted"] == 7.0
    assert inside.get("utimes", [3_000_004_000, 5_000_006_000]) == [3_000_004_000, 5_000_006_000]
    assert inside.get("utime_old", [8.0, 9.0]) == [8.0, 9.0]


def test_attributes_of_own_open_files_come_and_go(seen: dict[str, Any]) -> None:
    assert seen["inside"]["value"] == "value"
    assert seen["inside"]["attributes"] == []


def test_programs_that_copy_modes_and_times_work(seen: dict[str, Any]) -> None:
    new, installed, copy, *_ = seen["inside"]["programs"].splitlines()
    assert new == "64477"
    assert installed.startswith("750")
    assert copy.startswith("711")


@pytest.fixture
def tree(tmp_path: Path) -> tuple[Path, ContainedDirectory]:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "root-beside").touch()
    return root, ContainedDirectory(str(root))


@pytest.mark.parametrize(
    "path",
    ["{root}-beside", "{root}/..", "{root}/../root-beside", "/", "{root}/out", "{root}/up/x",
     "{root}/a/../..", "relative", "", "/proc/self/cwd", "{root}/in/out"],
)  # fmt: skip
def test_a_tree_opens_nothing_beside_it(tree: tuple[Path, ContainedDirectory], path: str) -> None:
    root, found = tree
    (root / "a").mkdir()
    (root / "out").symlink_to(f"{root}-beside")
    (root / "up").symlink_to("../..")
    (root / "in").symlink_to(root)
    for follow in (True, False):
        if path.endswith("out") and not follow:
            continue  # the link itself is below
        with pytest.raises(PermissionError):
            os.close(found.open(path.format(root=root).encode(), follow=follow))


def test_a_tree_leaves_no_descriptor_behind(tree: tuple[Path, ContainedDirectory]) -> None:
    root, found = tree
    (root / "loop").symlink_to(root / "loop")
    (root / "file").touch()
    (root / "link").symlink_to(f"{root}/x/../file")
    (root / "x").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(OSError, match="symbolic links"):
            found.open(bytes(root / "loop"), follow=True)
        fd = found.open(bytes(root / "link"), follow=True)
        assert os.fstat(fd).st_ino == (root / "file").stat().st_ino
        os.close(fd)
        with pytest.raises(PermissionError):
            found.open(bytes(root) + b"/x/../../y", follow=True)
    assert len(os.listdir("/proc/self/fd")) == before


def test_sandboxes_are_spread_over_the_processors() -> None:
    usable = os.sched_getaffinity(0)
    spread = ProcessorAllocator()
    alone = [tuple(spread.choose(1, [])) for _ in usable]
    assert {processor for (processor,) in alone} == usable
    assert set(spread.choose(1000, [])) == usable
    # A process of another sandbox that is bound to one leaves the others.
    if len(usable) > 1:
        taken = min(usable)
        child = subprocess.Popen(["taskset", "-c", str(taken), "sleep", "60"])
        try:
            while os.sched_getaffinity(child.pid) != {taken}:
                os.sched_yield()
            assert all(taken not in spread.choose(1, [child.pid]) for _ in range(4))
        finally:
            child.kill()
            child.wait()
