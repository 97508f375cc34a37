"""Notebook files as a place for copies, through the contents managers of Jupyter."""

from __future__ import annotations

import asyncio
import os

import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.contents.largefilemanager import (
    AsyncLargeFileManager,
    LargeFileManager,
)
from tornado.web import HTTPError

from sbx_jupyter.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
)
from sbx_jupyter.server.copies import notebook_files
from sbx_jupyter.server.copies.copying import Copy, Job
from sbx_jupyter.server.copies.notebook_files import CHUNK, NotebookPlace
from tests.server.copies.memory_place import MemoryPlace

LARGE = os.urandom(CHUNK * 2 + 7)


@pytest.fixture(params=[AsyncLargeFileManager, LargeFileManager])
def place(request, tmp_path):
    return NotebookPlace(request.param(root_dir=str(tmp_path), delete_to_trash=False))


async def pieces(content, *, breaks=False):
    for start in range(0, len(content), 300_000):
        yield content[start : start + 300_000]
    if breaks:
        raise NotFoundError("broke")


async def content_of(place, path):
    async with place.read(await place.find(path)) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_files_of_any_size_are_written_and_read(place, tmp_path):
    await place.make_dir("folder")
    await place.make_dir("folder")
    for name, content in (("large", LARGE), ("empty", b""), ("one chunk", LARGE[:CHUNK])):
        await place.write(f"folder/{name}", pieces(content))
        assert await content_of(place, f"folder/{name}") == content
    await place.write("folder/large", pieces(b"replaced"))

    assert tmp_path.joinpath("folder/large").read_bytes() == b"replaced"
    assert await place.names("folder") == {"large", "empty", "one chunk"}
    assert "folder/large" in [each.path async for each in place.tree("")]
    assert await place.names("none") == set()
    with pytest.raises(InvalidArgumentError):
        await place.make_dir("folder/large")


async def test_a_file_that_breaks_off_leaves_the_old_one(place, tmp_path):
    await place.write("kept", pieces(b"old"))
    with pytest.raises(NotFoundError):
        await place.write("kept", pieces(LARGE, breaks=True))

    assert tmp_path.joinpath("kept").read_bytes() == b"old"
    assert await place.names("") == {"kept"}


async def test_a_folder_below_is_never_replaced_by_a_file(place, tmp_path):
    place._contents.always_delete_dir = True
    tmp_path.joinpath("out/data").mkdir(parents=True)
    tmp_path.joinpath("out/data/kept").write_text("kept")
    tmp_path.joinpath("out/link").symlink_to("data")
    hostile = {"/out": None, "/out/data": b"x", "/out/link": b"x", "/out/other": b"new"}

    copy = Copy(MemoryPlace(hostile), place, "replace")
    await copy.plan([Job("/out", "out")])
    await copy.run()

    assert tmp_path.joinpath("out/link/kept").read_text() == "kept"
    assert await place.names("out") == {"data", "link", "other"}
    assert sorted(copy.progress.failures) == [
        ("out/data", "there is a folder of this name"),
        ("out/link", "there is a folder of this name"),
    ]


async def test_links_to_files_and_notebooks_are_replaced(place, tmp_path):
    tmp_path.joinpath("target").write_text("kept")
    tmp_path.joinpath("link").symlink_to("target")
    tmp_path.joinpath("notebook.ipynb").write_text("{}")

    for name in ("link", "notebook.ipynb"):
        await place.write(name, pieces(b"new"))
        assert not tmp_path.joinpath(name).is_symlink()
        assert tmp_path.joinpath(name).read_bytes() == b"new"
    assert tmp_path.joinpath("target").read_text() == "kept"
    assert await place.names("") == {"target", "link", "notebook.ipynb"}


@pytest.fixture
def patch_calls(place, monkeypatch):
    """Runs ``before(count)`` before each call of a method of the contents manager."""

    def patch(name, before):
        original = getattr(place._contents, name)
        count = 0

        async def patched(*args):
            nonlocal count
            count += 1
            await before(count)
            return await notebook_files.ensure_async(original(*args))

        monkeypatch.setattr(place._contents, name, patched)

    return patch


@pytest.mark.parametrize(
    ("name", "call"), [("rename_file", 1), ("rename_file", 2), ("delete_file", 1)]
)
async def test_a_cancelled_copy_leaves_a_whole_file(place, tmp_path, patch_calls, name, call):
    reached, goes_on = asyncio.Event(), asyncio.Event()

    async def wait(count):
        if count == call:
            reached.set()
            await goes_on.wait()

    tmp_path.joinpath("kept").write_text("old")
    patch_calls(name, wait)
    writing = asyncio.create_task(place.write("kept", pieces(b"new")))
    await reached.wait()
    for _ in range(2):
        writing.cancel()
        await asyncio.sleep(0)
    assert not writing.done()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writing

    assert tmp_path.joinpath("kept").read_text() == "new"
    assert await place.names("") == {"kept"}


def failing(*calls):
    async def fail(count):
        if count in calls:
            raise HTTPError(500, "broke")

    return fail


@pytest.mark.parametrize(
    ("name", "call"), [("rename_file", 1), ("rename_file", 2), ("delete_file", 1)]
)
async def test_a_step_that_fails_leaves_the_old_file(place, tmp_path, patch_calls, name, call):
    tmp_path.joinpath("kept").write_text("old")
    patch_calls(name, failing(call))
    with pytest.raises(InternalError, match="broke"):
        await place.write("kept", pieces(b"new"))

    assert tmp_path.joinpath("kept").read_text() == "old"
    assert await place.names("") == {"kept"}


@pytest.mark.parametrize("calls", [(2, 3), (3,), (4,)])
async def test_an_old_file_that_cannot_be_put_back_is_named(place, tmp_path, patch_calls, calls):
    tmp_path.joinpath("kept").write_text("old")
    patch_calls("rename_file", failing(*calls))
    patch_calls("delete_file", failing(1))
    with pytest.raises(InternalError) as caught:
        await place.write("kept", pieces(b"new"))

    named = caught.value.message.split("'")[1::2]
    assert [tmp_path.joinpath(each).read_text() for each in named] == ["old", "new"]
    assert await place.names("") == set(named)


async def test_a_folder_that_comes_in_between_is_put_back(place, tmp_path, patch_calls):
    async def make_folder(count):
        if count == 1:
            tmp_path.joinpath("kept").unlink()
            tmp_path.joinpath("kept").mkdir()
            tmp_path.joinpath("kept/inner").write_text("kept")

    place._contents.always_delete_dir = True
    tmp_path.joinpath("kept").write_text("old")
    patch_calls("rename_file", make_folder)
    with pytest.raises(AlreadyExistsError):
        await place.write("kept", pieces(b"new"))

    assert tmp_path.joinpath("kept/inner").read_text() == "kept"
    assert await place.names("") == {"kept"}


@pytest.mark.parametrize("path", [".hidden", "a/.git/config", "x\ny"])
async def test_hidden_and_misleading_names_are_refused(place, path):
    with pytest.raises((PermissionDeniedError, InvalidArgumentError)):
        await place.write(path, pieces(LARGE))
    with pytest.raises((PermissionDeniedError, InvalidArgumentError)):
        await place.make_dir(path)


async def test_an_error_names_the_file_as_it_is(place):
    with pytest.raises(NotFoundError, match="100% of it"):
        async for _ in place.tree("100% of it"):
            pass


async def test_links_and_pipes(place, tmp_path):
    tmp_path.joinpath("folder").mkdir()
    tmp_path.joinpath("folder/link").symlink_to("/etc")
    tmp_path.joinpath("folder/inner").write_text("x")

    found = {each.path: each.is_link async for each in place.tree("folder")}
    assert found == {"folder/link": True, "folder/inner": False}
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgumentError):
        notebook_files._open(str(tmp_path / "pipe"))
    assert await place.find("../../etc/passwd") is None


async def test_a_storage_without_files_gives_them_whole(tmp_path, monkeypatch):
    place = NotebookPlace(AsyncFileContentsManager(root_dir=str(tmp_path)))
    place._on_disk = False
    tmp_path.joinpath("x").write_bytes(b"\x00whole\xff")

    assert await content_of(place, "x") == b"\x00whole\xff"
    monkeypatch.setattr(notebook_files, "MAX_WHOLE", 3)
    with pytest.raises(ResourceExhaustedError):
        await content_of(place, "x")
