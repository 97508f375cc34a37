"""A writable layer is copied while it changes, and the copy is made exact once it is still."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sbx_jupyter.agent.files.removal import remove
from sbx_jupyter.isolation.trees.copied_directories import CopiedDirectories
from sbx_jupyter.isolation.trees.descent import Descent, MovedError
from sbx_jupyter.isolation.trees.merge import Merge
from sbx_jupyter.isolation.trees.mirror import Mirror
from tests.waiting import until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="owners and whiteouts: root only")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


@pytest.fixture
def copied() -> Iterator[CopiedDirectories]:
    with contextlib.closing(CopiedDirectories()) as made:
        yield made


def described(root: Path) -> dict[str, tuple]:
    """All that a copy must keep of each entry."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder, name)
            status = path.lstat()
            content: bytes | str = b""
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = path.read_bytes()
            attributes = {
                key: os.getxattr(path, key, follow_symlinks=False)
                for key in os.listxattr(path, follow_symlinks=False)
            }
            found[str(path.relative_to(root))] = (
                status.st_mode, status.st_uid, status.st_gid, status.st_rdev,
                status.st_mtime_ns, status.st_nlink, content, attributes,
            )  # fmt: skip
    return found


@needs_root
def test_everything_about_an_entry_is_kept(source: Path, target: Path) -> None:
    (source / "d" / "e").mkdir(parents=True)
    (source / "d" / "f").write_text("content")
    os.chown(source / "d" / "f", 1000, 1001)
    (source / "d" / "f").chmod(0o4751)
    os.setxattr(source / "d" / "f", "user.e2b.key", b"value")
    os.setxattr(source / "d", "user.overlay.opaque", b"y")
    os.utime(source / "d", ns=(1, 123456789))
    os.link(source / "d" / "f", source / "linked")
    (source / "link").symlink_to("/etc/passwd")
    os.lchown(source / "link", 1000, 1000)
    os.mknod(source / "gone", stat.S_IFCHR | 0o000, 0)
    os.mkfifo(source / "fifo")

    Mirror(str(source), str(target), still=True).run()

    assert described(target) == described(source)
    assert (target / "linked").stat().st_ino == (target / "d" / "f").stat().st_ino


def test_holes_stay_holes(source: Path, target: Path) -> None:
    with (source / "sparse").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 29)
        file.write(b"middle")

    Mirror(str(source), str(target), still=True).run()

    copied = (target / "sparse").stat()
    assert copied.st_size == 1 << 30
    assert copied.st_blocks * 512 < 1 << 20
    with (target / "sparse").open("rb") as file:
        file.seek(1 << 29)
        assert file.read(6) == b"middle"


def test_the_second_pass_makes_the_copy_exact(
    source: Path, target: Path, copied: CopiedDirectories
) -> None:
    for index in range(50):
        (source / f"d{index % 5}").mkdir(exist_ok=True)
        (source / f"d{index % 5}" / f"f{index}").write_text(str(index))
    time.sleep(0.1)  # so that no folder looks as if it changed from now on
    started = time.time_ns()
    Mirror(str(source), str(target), still=False, copied=copied).run()

    (source / "d0" / "f0").write_text("changed")
    (source / "d1" / "f1").unlink()
    (source / "d2" / "f2").chmod(0o600)
    (source / "d3").rename(source / "moved")
    (source / "d4" / "f4").unlink()
    (source / "d4" / "f4").mkdir()
    (source / "d4" / "new").symlink_to("nowhere")
    Mirror(str(source), str(target), since_ns=started, still=True, copied=copied).run()

    assert described(target) == described(source)


def make_versions(root: Path) -> None:
    """Two directories with files of the same names, sizes and times, but not the same files."""
    for name in ("cur", "new"):
        (root / name / "sub" / "empty").mkdir(parents=True)
        (root / name / "sub" / "empty").chmod(0o751)
        for path in (root / name / "f", root / name / "sub" / "g", root / name / "sub" / name):
            path.write_text(name)
            os.utime(path, ns=(1, 1))
    time.sleep(0.1)  # so that nothing looks as if it changed from now on


def test_a_directory_that_replaces_another_is_copied_anew(
    source: Path, target: Path, copied: CopiedDirectories
) -> None:
    make_versions(source)
    started = time.time_ns()
    Mirror(str(source), str(target), still=False, copied=copied).run()

    (source / "cur").rename(source / "old")
    (source / "new").rename(source / "cur")
    Mirror(str(source), str(target), since_ns=started, still=True, copied=copied).run()

    assert described(target) == described(source)


def test_a_directory_that_is_the_same_is_not_copied_anew(
    source: Path, target: Path, copied: CopiedDirectories
) -> None:
    make_versions(source)
    started = time.time_ns()
    Mirror(str(source), str(target), still=False, copied=copied).run()
    copies = {path: path.stat().st_ino for path in target.rglob("*")}

    (source / "cur" / "added").touch()
    Mirror(str(source), str(target), since_ns=started, still=True, copied=copied).run()

    assert described(target) == described(source)
    assert copies == {path: path.stat().st_ino for path in copies}


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_second_pass_makes_a_whole_copy_of_what_is_not_known(
    source: Path, target: Path, copied: CopiedDirectories, is_noted: bool
) -> None:
    """Its first pass is not known, or what it made was removed, since its process was killed."""
    make_versions(source)
    Mirror(str(source), str(target), still=False, copied=copied).run()
    if is_noted:
        remove(str(target))
    else:
        (target / "cur" / "f").write_text("of an earlier copy")

    known = copied if is_noted else None
    Mirror(str(source), str(target), since_ns=time.time_ns(), still=True, copied=known).run()

    assert described(target) == described(source)


def test_a_tree_that_changes_all_the_time_is_copied_and_then_exact(
    source: Path, target: Path, copied: CopiedDirectories
) -> None:
    stop = threading.Event()
    turn = 0

    def churn() -> None:
        nonlocal turn
        while not stop.is_set():
            turn += 1
            folder = source / f"d{turn % 7}"
            folder.mkdir(exist_ok=True)
            path = folder / f"f{turn % 31}"
            if path.exists() and turn % 3 == 0:
                path.unlink()
            else:
                path.write_text(str(turn))
            if turn % 50 == 0:
                folder.rename(source / f"r{turn}")

    thread = threading.Thread(target=churn)
    thread.start()
    until(lambda: turn > 200)
    started = time.time_ns()
    Mirror(str(source), str(target), still=False, copied=copied).run()
    stop.set()
    thread.join()

    Mirror(str(source), str(target), since_ns=started, still=True, copied=copied).run()

    assert described(target) == described(source)


def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(
    source: Path, target: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (source / "d").mkdir()
    (source / "spare").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(source / "d", source / "held")
            os.rename(source / "spare", source / "d")
            os.rename(source / "d", source / "spare")
            os.rename(source / "held", source / "d")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for turn in range(300):
            Mirror(str(source), str(tmp_path / f"copy{turn}"), still=False).run()
    finally:
        stop.set()
        thread.join()

    assert not list(tmp_path.glob("copy*/**/secret"))
    assert os.listdir(outside) == ["secret"]


def test_a_link_of_two_names_stays_a_link(source: Path, target: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    (source / "one").symlink_to(secret)
    os.link(source / "one", source / "two", follow_symlinks=False)
    for copy in (Mirror(str(source), str(target), still=True), Merge([str(source)], f"{target}2")):
        copy.run()
    assert secret.stat().st_nlink == 1
    for made in (target, Path(f"{target}2")):
        assert [os.readlink(made / name) for name in ("one", "two")] == [str(secret)] * 2
        assert (made / "one").lstat().st_nlink == 2


DEPTH = 5_000


@pytest.fixture
def memory() -> Iterator[Path]:
    """A place where so many directories are removed quickly."""
    place = Path(tempfile.mkdtemp(prefix="sbx-deep-", dir="/dev/shm"))
    yield place
    remove(str(place))


@pytest.fixture
def deep(memory: Path) -> Path:
    """A tree that no path leads through, with a file at its end that has two names."""
    source = memory / "source"
    source.mkdir()
    at = os.open(source, os.O_RDONLY)
    for number in range(DEPTH):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        if number % 1250 == 0:
            os.close(os.open("f", os.O_CREAT | os.O_WRONLY, 0o640, dir_fd=at))
        os.close(at)
        at = below
    os.close(os.open("first", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=at))
    os.link("first", "second", src_dir_fd=at, dst_dir_fd=at)
    os.close(at)
    return source


def depth_and_end(root: Path) -> tuple[int, int, dict[str, tuple[int, int]]]:
    """Directories on the way down, files beside them, and the files at the end."""
    at, depth, files = os.open(root, os.O_RDONLY), 0, 0
    while "d" in (names := os.listdir(at)):
        files += "f" in names
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at, depth = below, depth + 1
    found = {name: os.stat(name, dir_fd=at) for name in names}
    os.close(at)
    return depth, files, {name: (s.st_mode, s.st_nlink) for name, s in found.items()}


@pytest.mark.parametrize("kind", ["copy", "merge"])
def test_a_tree_of_any_depth_is_copied_with_few_descriptors(
    deep: Path, memory: Path, kind: str
) -> None:
    above, target = memory / "above", memory / "target"
    (above / "d" / "d").mkdir(parents=True)
    (above / "d" / "d" / "here").touch()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        if kind == "copy":
            with contextlib.closing(CopiedDirectories()) as copied:
                Mirror(str(deep), str(target), still=True, copied=copied).run()
                since = time.time_ns()
                Mirror(str(deep), str(target), since_ns=since, still=True, copied=copied).run()
        else:
            Merge([str(above), str(deep)], str(target)).run()
        found = depth_and_end(target)
        assert found == (DEPTH, 4, dict.fromkeys(("first", "second"), (stat.S_IFREG | 0o600, 2)))
        if kind == "merge":
            assert (target / "d" / "d" / "here").exists()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_directory_that_moves_away_is_not_mistaken_for_another(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c" / "d").mkdir(parents=True)
    top = os.open(tmp_path, os.O_RDONLY)
    descent = Descent([top])
    descent._kept = 2
    for name in "abcd":
        descent.enter(name, {0: os.open(name, os.O_RDONLY, dir_fd=descent.descriptor(0))})
    assert descent.path("e") == "a/b/c/d/e"
    (tmp_path / "a" / "b").rename(tmp_path / "a" / "old")
    (tmp_path / "a" / "b").mkdir()
    descent.leave()
    descent.leave()
    with pytest.raises(MovedError):
        descent.descriptor(0)
    descent.close()
    assert descent.descriptor(0) == top
    os.close(top)
