"""What a copy does with what is there, with what fails, and with hostile names."""

from __future__ import annotations

import pytest

from sbx_jupyter.errors import NotFoundError, ResourceExhaustedError
from sbx_jupyter.server.copies import copying
from sbx_jupyter.server.copies.copying import Copy, Job, free_name
from sbx_jupyter.server.copies.places import Found, inner_path, part_name
from tests.server.copies.memory_place import MemoryPlace

TREE = {"/a": None, "/a/b": None, "/a/b/c": b"content", "/a/d": b"", "/file": b"new"}


async def copied(source, target, jobs, existing="fail"):
    copy = Copy(source, target, existing)
    await copy.plan([Job(*job) for job in jobs])
    await copy.run()
    return copy.progress


async def test_a_folder_is_copied_with_all_that_is_below():
    target = MemoryPlace()
    progress = await copied(MemoryPlace(TREE), target, [("/a", "/x"), ("/file", "/y")])

    assert target.files == {
        "/x": None, "/x/b": None, "/x/b/c": b"content", "/x/d": b"", "/y": b"new",
    }  # fmt: skip
    assert (progress.files, progress.all_files, progress.copied) == (3, 3, 3)
    assert (progress.bytes, progress.all_bytes) == (10, 10)
    assert progress.failures == []


@pytest.mark.parametrize(
    ("existing", "after", "failures", "skipped"),
    [
        ("fail", {"y.txt": b"old"}, 1, 0),
        ("skip", {"y.txt": b"old"}, 0, 1),
        ("replace", {"y.txt": b"new"}, 0, 0),
        ("keep", {"y.txt": b"old", "y-Copy1.txt": b"new"}, 0, 0),
    ],
)
async def test_the_choice_decides_about_what_exists(existing, after, failures, skipped):
    target = MemoryPlace({"y.txt": b"old"})
    progress = await copied(MemoryPlace(TREE), target, [("/file", "y.txt")], existing)

    assert target.files == after
    assert (progress.failure_count, len(progress.skipped)) == (failures, skipped)


async def test_folders_are_joined_and_never_replaced_by_files():
    target = MemoryPlace({"/x": None, "/x/d": b"old", "/x/kept": b"kept", "/y": None})
    progress = await copied(MemoryPlace(TREE), target, [("/a", "/x"), ("/file", "/y")], "replace")

    assert target.files["/x/d"] == b""
    assert target.files["/x/kept"] == b"kept"
    assert target.files["/y"] is None
    assert [name for name, _ in progress.failures] == ["/file"]


async def test_what_fails_is_named_and_the_others_are_copied():
    source = MemoryPlace({**TREE, "/a/e": b"read"}, broken={"/a/d"})
    target = MemoryPlace(refused={"/x/b"})
    progress = await copied(source, target, [("/a", "/x")])

    assert target.files == {"/x": None, "/x/e": b"read"}
    assert sorted(progress.failures) == [("/x/b", "refused"), ("/x/d", "gone")]
    with pytest.raises(NotFoundError):
        await copied(source, target, [("/none", "/x")])


async def test_hostile_entries_are_left_out():
    entries = [
        Found("x", "/a/../../etc/x", "file"),
        Found("x", "/elsewhere/x", "file"),
        Found("", "/a/", "file"),
        Found("link", "/a/link", "directory", is_link=True),
        Found("pipe", "/a/pipe", "other"),
    ]
    target = MemoryPlace()
    progress = await copied(MemoryPlace(TREE, entries=entries), target, [("/a", "/x")])

    assert sorted(target.files) == ["/x", "/x/b", "/x/b/c", "/x/d"]
    assert progress.failure_count == 3
    assert progress.links == 2


async def test_too_many_entries_are_refused_before_anything_is_written(monkeypatch):
    monkeypatch.setattr(copying, "MAX_ENTRIES", 10)
    many = [Found("l", f"/a/{n}", "other") for n in range(20)]
    target = MemoryPlace()
    with pytest.raises(ResourceExhaustedError, match="more than 10"):
        await copied(MemoryPlace(TREE, entries=many), target, [("/a", "/x")])

    assert target.files == {}


def test_names():
    assert inner_path("/", Found("x", "/x", "file")) == "x"
    assert inner_path("/a", Found("x", "/a/b/x", "file")) == "b/x"
    assert free_name("x.tar.gz", {"x.tar-Copy1.gz"}) == "x.tar-Copy2.gz"
    assert free_name(".bashrc", set()) == ".bashrc-Copy1"
    long = part_name("/d/" + "é" * 127)
    assert long.startswith("/d/é")
    assert len(long.rpartition("/")[2].encode()) <= 255
