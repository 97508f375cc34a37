"""Changes between stacks of layers, made by hand as overlayfs makes them."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import stat
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import pytest

from sbx_jupyter.isolation.stored import comparison, merged_tree, trees
from sbx_jupyter.isolation.stored.archive import ArchiveReader, write_archive
from sbx_jupyter.isolation.stored.comparison import Comparison, Difference
from sbx_jupyter.isolation.stored.merged_tree import (
    Layer,
    LayerFolder,
    lookup_in,
)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="whiteouts are device nodes: root only")


class Tree:
    """A directory that is filled as a layer."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.layer = Layer(root)

    def file(self, path: str, content: str = "") -> Tree:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        os.utime(target, ns=(0, len(content)))
        return self

    def whiteout(self, path: str) -> Tree:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(target, 0o600 | stat.S_IFCHR, 0)
        return self

    def opaque(self, path: str) -> Tree:
        target = self.root / path
        target.mkdir(parents=True, exist_ok=True)
        os.setxattr(target, "user.overlay.opaque", b"y")
        return self


@pytest.fixture
def base(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "base").file("a/x", "1").file("a/y", "22").file("b", "333")


@pytest.fixture
def upper(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "upper")


def changes(
    ours: list[Tree],
    common: list[Tree],
    theirs: list[Tree] | None = None,
    sandbox_id: str | None = None,
) -> list:
    compared = Comparison(
        ours=tuple(tree.layer for tree in ours),
        theirs=tuple(tree.layer for tree in theirs or []),
        common=tuple(tree.layer for tree in common),
        sandbox_id=sandbox_id,
    )
    return [(item.change, item.path) for item in compared.changes()]


def test_nothing_written_is_no_change(base: Tree, upper: Tree) -> None:
    assert changes([upper], [base]) == []


def test_files_are_added_and_changed(base: Tree, upper: Tree) -> None:
    upper.file("a/x", "longer").file("a/new", "n").file("c/d", "")

    assert changes([upper], [base]) == [
        ("added", "/a/new"),
        ("changed", "/a/x"),
        ("added", "/c"),
        ("added", "/c/d"),
    ]


def test_a_copy_without_change_is_no_change(base: Tree, upper: Tree) -> None:
    upper.file("a/x", "1")

    assert changes([upper], [base]) == []


@needs_root
def test_deletions_are_listed_once(base: Tree, upper: Tree) -> None:
    upper.whiteout("a").whiteout("b").whiteout("never-there")

    assert changes([upper], [base]) == [("deleted", "/a"), ("deleted", "/b")]


def test_a_directory_made_anew_hides_what_was_in_it(base: Tree, upper: Tree) -> None:
    upper.opaque("a").file("a/z", "")

    assert changes([upper], [base]) == [
        ("deleted", "/a/x"),
        ("deleted", "/a/y"),
        ("added", "/a/z"),
    ]


def test_what_a_directory_made_anew_hides_deeper_is_listed_too(base: Tree, upper: Tree) -> None:
    base.file("a/in/old", "o")
    upper.opaque("a").file("a/in/new", "")

    assert changes([upper], [base]) == [
        ("added", "/a/in/new"),
        ("deleted", "/a/in/old"),
        ("deleted", "/a/x"),
        ("deleted", "/a/y"),
    ]


@needs_root
def test_what_a_layer_between_deleted_is_listed(base: Tree, upper: Tree, tmp_path: Path) -> None:
    between = Tree(tmp_path / "between").whiteout("a")
    upper.file("a/new", "")

    assert changes([upper, between], [base]) == [
        ("added", "/a/new"),
        ("deleted", "/a/x"),
        ("deleted", "/a/y"),
    ]


@needs_root
def test_what_a_later_layer_brings_back_is_no_deletion(
    base: Tree, upper: Tree, tmp_path: Path
) -> None:
    middle = Tree(tmp_path / "middle").whiteout("b")
    upper.file("b", "333")

    assert changes([upper, middle], [base]) == []
    assert changes([upper], [middle, base]) == [("added", "/b")]


def test_against_a_snapshot_only_what_came_after_counts(
    base: Tree, upper: Tree, tmp_path: Path
) -> None:
    snapshot = Tree(tmp_path / "snapshot").file("a/x", "longer").file("gone", "g")
    upper.file("a/x", "longer").file("later", "")

    assert changes([upper], [base], theirs=[snapshot]) == [
        ("deleted", "/gone"),
        ("added", "/later"),
    ]


def found(layers: Sequence[Layer], path: str) -> os.stat_result | None:
    """The entry at a path, looked up in directories that were entered one after the other."""
    folder, _, name = path.rpartition("/")
    with contextlib.ExitStack() as stack:
        opened = [LayerFolder.find(layer, "") for layer in layers]
        for part in folder.split("/") if folder else ():
            opened = [stack.enter_context(contextlib.closing(each)) for each in opened]
            opened = [each.enter(part) for each in opened]
        with contextlib.ExitStack() as last:
            opened = [last.enter_context(contextlib.closing(each)) for each in opened]
            return lookup_in(opened, name)


def test_a_layer_at_a_prefix_is_seen_there_alone(tmp_path: Path, upper: Tree) -> None:
    host = Tree(tmp_path / "host").file("bin/tool", "t")
    seen = (upper.layer, Layer(host.root, "usr"))

    assert found(seen, "usr/bin/tool") is not None
    assert found(seen, "usr") is not None
    assert found(seen, "bin/tool") is None


@needs_root
def test_a_directory_that_was_entered_is_the_one_that_is_found_by_path(
    base: Tree, upper: Tree, tmp_path: Path
) -> None:
    upper.file("a/new").whiteout("a/y").file("b", "x").opaque("made").file("made/in/new", "1")
    upper.whiteout("gone").file("over", "a file in place of a directory")
    base.file("made/under", "u").file("gone/x", "x").file("over/x", "x").file("usr/own", "o")
    base.file("made/in/old", "x")
    host = Tree(tmp_path / "host").file("bin/tool", "t")
    layers = (upper.layer, base.layer, Layer(host.root, "usr"), Layer(host.root, "opt/deep"))
    expected = {
        "a/new": upper.root / "a/new",
        "a/x": base.root / "a/x",
        "a/y": None,
        "b": upper.root / "b",
        "made/under": None,
        "made/in/new": upper.root / "made/in/new",
        "made/in/old": None,
        "gone/x": None,
        "over/x": None,
        "over": upper.root / "over",
        "usr/own": base.root / "usr/own",
        "usr/bin/tool": host.root / "bin/tool",
        "opt/deep": host.root,
        "opt/deep/bin": host.root / "bin",
        "bin/tool": None,
        "none/x": None,
    }

    for path, there in expected.items():
        status = None if there is None else os.stat(there)
        assert found(layers, path) == status, path
        folder, _, name = path.rpartition("/")
        opened = [LayerFolder.find(layer, folder) for layer in layers]
        assert lookup_in(opened, name) == status, path
        for each in opened:
            each.close()


def test_each_directory_costs_the_same_however_many_there_are(
    base: Tree, upper: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[str] = []
    enter = merged_tree._enter

    def counted(folder: int, name: str) -> object:
        entered.append(name)
        return enter(folder, name)

    monkeypatch.setattr(merged_tree, "_enter", counted)
    for number in range(50):
        upper.file(f"many/{number}/file")
    assert len(changes([upper], [base])) == 101
    few = len(entered)

    for number in range(50, 200):
        upper.file(f"many/{number}/file")
    entered.clear()
    assert len(changes([upper], [base])) == 401

    assert len(entered) < 4.2 * few


def test_few_directories_of_a_deep_tree_are_open(base: Tree, upper: Tree) -> None:
    for name in "abc":
        upper.file("/".join(["d"] * 60) + f"/{name}").file("/".join(["d"] * 30) + f"/{name}")
    before = len(os.listdir("/proc/self/fd"))
    most = 0
    compared = Comparison((upper.layer,), (), (base.layer,))

    for _ in compared.changes():
        most = max(most, len(os.listdir("/proc/self/fd")))

    assert before < most <= before + 20
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_comparison_that_is_given_up_leaves_nothing_open(base: Tree, upper: Tree) -> None:
    upper.file("d/e/f/g")
    before = len(os.listdir("/proc/self/fd"))
    compared = Comparison((upper.layer,), (), (base.layer,)).changes()

    assert [next(compared).path for _ in range(3)] == ["/d", "/d/e", "/d/e/f"]
    compared.close()

    assert len(os.listdir("/proc/self/fd")) == before


def test_links_in_a_layer_lead_nowhere(base: Tree, upper: Tree, tmp_path: Path) -> None:
    outside = Tree(tmp_path / "outside").file("secret", "s")
    (upper.root / "a").symlink_to(outside.root)

    assert changes([upper], [base]) == [("changed", "/a")]
    assert found((upper.layer, base.layer), "a/secret") is None


def test_names_that_are_not_text_are_listed(base: Tree, upper: Tree) -> None:
    with open(os.fsencode(upper.root) + b"/\xff", "wb"):
        pass

    assert changes([upper], [base]) == [("added", "/\ufffd")]


@contextlib.contextmanager
def few_frames() -> Iterator[None]:
    """Python's own limit of calls within calls, not far from here."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 60)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_a_deep_tree_is_compared_without_calls_within_calls(base: Tree, upper: Tree) -> None:
    upper.file("/".join(["d"] * 120) + "/f")

    with few_frames():
        found = changes([upper], [base])

    assert len(found) == 121


def test_a_comparison_that_is_cut_says_so(
    base: Tree, upper: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "_MAX_LOOKED_UP", 10)
    upper.file("d/d/d/d/d/f")
    cut: list[bool] = []

    found = list(Comparison((upper.layer,), (), (base.layer,)).changes(lambda: cut.append(True)))

    assert [change.path for change in found] == ["/d", "/d/d", "/d/d/d", "/d/d/d/d"]
    assert cut == [True]


def test_a_chain_of_long_names_is_cut(base: Tree, upper: Tree) -> None:
    fd = os.open(upper.root, os.O_RDONLY)
    for _ in range(300):
        os.mkdir(b"\xff" * 255, dir_fd=fd)
        deeper = os.open(b"\xff" * 255, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    upper.file("z")
    cut: list[bool] = []

    found = list(Comparison((upper.layer,), (), (base.layer,)).changes(lambda: cut.append(True)))

    assert cut == [True]
    assert sum(len(change.path) for change in found) < 1 << 20
    assert "/z" in [change.path for change in found]  # what is beside it is not left out


def test_differences_have_so_many_characters_at_most(
    base: Tree, upper: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "MOST_PATHS", 30)
    upper.file("d/one").file("d/two").file("d/" + "x" * 40)

    @dataclass
    class Names:
        ours = (upper.root.name,)
        theirs = ()
        common = (base.root.name,)

    found = trees.StoredTrees(upper.root.parent).compare(Names(), on_stock=False)

    assert [change.path for change in found.changes] == ["/d", "/d/one", "/d/two"]
    assert found.truncated


@pytest.fixture
def started(base: Tree, upper: Tree) -> Tree:
    """The writable layer of a sandbox in which nothing has run yet."""
    base.file("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 before\n").file("etc/hostname", "x\n")
    upper.file("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 i123\n").file("etc/hostname", "i123\n")
    for name, value in (("", "true"), ("_ID", "i123")):
        upper.file(f"run/e2b/.E2B_SANDBOX{name}", value)
    upper.file("run/e2b/.E2B_TEMPLATE_ID", "base")
    base.file("run/lock", "")
    return upper


def test_what_the_engine_writes_at_the_start_is_no_change(base: Tree, started: Tree) -> None:
    assert changes([started], [base], sandbox_id="i123") == []
    assert ("added", "/run/e2b") in changes([started], [base])


def test_what_else_is_written_to_the_same_files_is_a_change(base: Tree, started: Tree) -> None:
    started.file("etc/hosts", "127.0.0.1 localhost\n10.0.0.1 bank\n127.0.1.1 i123\n")
    started.file("etc/hostname", "i123\nmore\n").file("run/e2b/.E2B_SANDBOX", "true\nfalse")
    started.file("run/e2b/.E2B_TEMPLATE_ID", "/home/user").file("run/e2b/other", "")
    (started.root / "run/e2b/.E2B_SANDBOX_ID").chmod(0o666)

    assert changes([started], [base], sandbox_id="i123") == [
        ("changed", "/etc/hostname"),
        ("changed", "/etc/hosts"),
        ("added", "/run/e2b/.E2B_SANDBOX"),
        ("added", "/run/e2b/.E2B_SANDBOX_ID"),
        ("added", "/run/e2b/.E2B_TEMPLATE_ID"),
        ("added", "/run/e2b/other"),
    ]


def test_a_link_in_place_of_a_file_of_the_engine_is_a_change(base: Tree, started: Tree) -> None:
    (started.root / "etc/hostname").unlink()
    (started.root / "etc/hostname").symlink_to("/etc/shadow")

    assert changes([started], [base], sandbox_id="i123") == [("changed", "/etc/hostname")]


def test_an_archive_that_nobody_reads_ends_without_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)

    trees.write_changes(Comparison((), (), ()), writer)

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writer)


def test_an_archive_ends_with_the_first_write_that_fails(base: Tree) -> None:
    class Left:
        def write(self, _: bytes) -> int:
            raise BrokenPipeError

    changed = iter([Difference("/big", "added", "file", 0)] * 1000)
    base.file("big", "x" * 2 * tarfile.RECORDSIZE)  # more than is written at once

    with pytest.raises(BrokenPipeError):
        write_archive(cast("IO[bytes]", Left()), [base.layer], changed)

    assert len(list(changed)) == 999


def test_the_end_of_an_archive_is_told_from_a_cut(base: Tree) -> None:
    written = io.BytesIO()
    base.file("zeros", "\0" * 100_000)
    write_archive(written, [base.layer], [Difference("/zeros", "added", "file", 100_000)])

    def seen(content: bytes) -> tuple[bytes, bool]:
        archive = ArchiveReader()
        steps = range(0, len(content), 100)
        passed = b"".join(archive.pass_on(content[start : start + 100]) for start in steps)
        return passed, archive.is_whole

    tar, is_whole = seen(written.getvalue())
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        assert archive.getnames() == ["zeros"]
    assert is_whole
    assert not seen(written.getvalue()[: 3 * tarfile.RECORDSIZE])[1]
    assert seen(b"") == (b"", False)


def test_hostile_names_count_as_what_they_take_in_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "MOST_PATHS", 1000)
    hostile = Tree(tmp_path / "hostile")
    for number in range(20):
        (hostile.root / os.fsdecode(b"\xff" * 100 + bytes([65 + number]))).touch()

    found, is_cut = Comparison((hostile.layer,), (), ()).first_changes()

    assert (len(found), is_cut) == (1, True)  # each takes over 600 bytes
