"""Notebook files as a place for copies, through the contents managers of Jupyter."""

from __future__ import annotations

import os

import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_server.services.contents.largefilemanager import (
    AsyncLargeFileManager,
    LargeFileManager,
)

from sbx_jupyter.errors import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
)
from sbx_jupyter.server.copies import notebook_files
from sbx_jupyter.server.copies.notebook_files import CHUNK, NotebookPlace

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
