"""Files through our client."""

from __future__ import annotations

import asyncio
import io
import os

import httpx
import pytest

from sbx_jupyter.client.files.files import FileStream, download_at_most, read_at_most
from sbx_jupyter.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from sbx_jupyter.protocol import runtime
from tests.waiting import PATIENCE


@pytest.fixture
def opened_streams(monkeypatch):
    """The streams that are opened during a test."""
    opened = []
    begin = FileStream.__init__

    def noted(self, response):
        begin(self, response)
        opened.append(self)

    monkeypatch.setattr(FileStream, "__init__", noted)
    return opened


async def test_text_and_bytes_come_back_as_written(sandbox):
    written = await sandbox.files.write("folder/näme", "zwölf", metadata={"origin": "test"})

    assert written.path == "/home/user/folder/näme"
    assert await sandbox.files.read("folder/näme") == "zwölf"
    assert await sandbox.files.read("folder/näme", "bytes") == "zwölf".encode()
    assert (await sandbox.files.info("folder/näme")).metadata == {"origin": "test"}


async def async_pieces():
    for _ in range(3):
        yield b"piece"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: b"raw", b"raw"),
        (lambda: bytearray(b"array"), b"array"),
        (lambda: io.BytesIO(b"file" * 100_000), b"file" * 100_000),
        (lambda: iter([b"a", b"b"]), b"ab"),
        (async_pieces, b"piecepiecepiece"),
        (lambda: "", b""),
    ],
)
async def test_anything_that_gives_bytes_can_be_written(sandbox, make, expected):
    await sandbox.files.write("file", make())

    assert await sandbox.files.read("file", "bytes") == expected


async def test_files_are_copied_in_and_out_piecewise(sandbox, tmp_path):
    content = os.urandom(5 * 1024 * 1024)
    (tmp_path / "source").write_bytes(content)

    await sandbox.files.upload(tmp_path / "source", "there")
    size = await sandbox.files.download("there", tmp_path / "back")

    assert size == len(content)
    assert (tmp_path / "back").read_bytes() == content


async def test_a_stream_can_be_left_early(sandbox):
    await sandbox.files.write("big", b"x" * 5_000_000)

    async with await sandbox.files.read("big", "stream") as stream:
        assert stream.size == 5_000_000
        async for chunk in stream:
            assert chunk.startswith(b"x")
            break

    assert await sandbox.files.read("big", "bytes") == b"x" * 5_000_000


async def test_reading_stops_at_a_bound_whatever_a_link_says_of_its_size(sandbox, opened_streams):
    await sandbox.files.write("big", b"x" * 5_000_000)
    await sandbox.commands.run("ln -s big link")

    assert (await sandbox.files.info("link")).size < 10
    assert await read_at_most(sandbox.files, "link", 5_000_000) == b"x" * 5_000_000
    assert await read_at_most(sandbox.files, "link", 4_999_999) is None
    assert all(stream._response.is_closed for stream in opened_streams)


async def test_a_file_that_grows_while_it_is_read_is_not_read_on(sandbox, monkeypatch):
    read = 0

    async def endless(self):
        nonlocal read
        read += 1000
        return b"x" * 1000

    await sandbox.files.write("small", b"x")
    monkeypatch.setattr(FileStream, "__anext__", endless)

    assert await read_at_most(sandbox.files, "small", 4000) is None
    assert read == 5000


async def test_a_copy_that_stops_at_a_bound_leaves_no_file(sandbox, tmp_path, opened_streams):
    await sandbox.files.write("big", b"x" * 5_000_000)
    await sandbox.commands.run("ln -s big link")
    target = tmp_path / "copy"

    assert await download_at_most(sandbox.files, "link", target, 4_999_999) is None
    assert not target.exists()
    assert await download_at_most(sandbox.files, "link", target, 5_000_000) == 5_000_000
    assert target.stat().st_size == 5_000_000
    assert all(stream._response.is_closed for stream in opened_streams)


async def test_a_bounded_copy_that_breaks_off_leaves_no_file(sandbox, tmp_path, monkeypatch):
    async def broken(self):
        raise UnavailableError("gone")

    await sandbox.files.write("file", b"x")
    monkeypatch.setattr(FileStream, "__anext__", broken)

    with pytest.raises(UnavailableError):
        await download_at_most(sandbox.files, "file", tmp_path / "copy", 100)

    assert not (tmp_path / "copy").exists()


async def test_directories_are_made_listed_moved_and_removed(sandbox):
    assert await sandbox.files.make_dir("d/e") is True
    assert await sandbox.files.make_dir("d/e") is False
    await sandbox.files.write_files({"d/1": "one", "d/e/2": b"two"})

    entries = await sandbox.files.list("d", depth=2)

    assert [(entry.name, entry.type) for entry in entries] == [
        ("1", runtime.FILE),
        ("e", runtime.DIRECTORY),
        ("2", runtime.FILE),
    ]
    moved = await sandbox.files.rename("d", "moved")
    assert moved.path == "/home/user/moved"
    await sandbox.files.remove("moved")
    assert not await sandbox.files.exists("moved")


async def test_each_mistake_has_its_error(sandbox):
    with pytest.raises(NotFoundError):
        await sandbox.files.read("missing")
    with pytest.raises(InvalidArgumentError):
        await sandbox.files.read("/home/user")
    with pytest.raises(NotFoundError):
        await sandbox.files.list("missing")
    with pytest.raises(InvalidArgumentError):
        await sandbox.files.list("", depth=0)
    with pytest.raises(UnauthenticatedError):
        await sandbox.files.info("x", user="nobody-here")
    with pytest.raises(InvalidArgumentError):
        await sandbox.files.write("x", 5)


async def test_a_watch_reports_changes_until_it_is_closed(sandbox):
    await sandbox.files.make_dir("watched")

    async with await sandbox.files.watch("watched", recursive=True) as watch:
        await sandbox.files.write("watched/new", "x")
        async with asyncio.timeout(PATIENCE):
            events = [await anext(watch) for _ in range(3)]

    assert [event.name for event in events] == ["new"] * 3
    assert [event.type for event in events] == [
        runtime.EVENT_CREATE,
        runtime.EVENT_CHMOD,
        runtime.EVENT_WRITE,
    ]


async def test_a_watch_of_a_killed_sandbox_ends_with_an_error(sandbox):
    watch = await sandbox.files.watch("")

    await sandbox.kill()

    async def drain():
        async for _ in watch:
            pass

    with pytest.raises(UnavailableError):
        await asyncio.wait_for(drain(), PATIENCE)


async def test_signed_addresses_work_without_any_header(sandbox):
    await sandbox.files.write("shared", "public")

    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
        download = await http.get(sandbox.files.download_url("shared", expires_in=60))
        upload = await http.post(
            sandbox.files.upload_url("sent", expires_in=60), files={"file": ("x", b"here")}
        )

    assert download.text == "public"
    assert upload.status_code == 200
    assert await sandbox.files.read("sent") == "here"
