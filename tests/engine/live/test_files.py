"""Entries and bytes of real files in a sandbox (interface 3.4, 4.4 to 4.6)."""

import asyncio
import os
import time

import pytest

from sbx_jupyter.engine.live import files
from sbx_jupyter.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NoSpaceError,
    NotFoundError,
    UnauthenticatedError,
)
from sbx_jupyter.isolation.channel import Reply
from tests.engine.live.running import count_descriptors, run
from tests.waiting import PATIENCE, async_until


async def _write(sandbox, path: str, content: bytes, **options) -> None:
    async with await sandbox.files.open_write(path, **options) as file:
        await file.write(content)


async def _read(sandbox, path: str) -> bytes:
    with await sandbox.files.open_read(path) as file:
        return os.read(file.fd, 16 << 20)


async def test_what_is_written_can_be_read_inside_and_outside(sandbox):
    async with await sandbox.files.open_write("/tmp/deep/er/note.txt") as file:
        await file.write(b"hello ")
        await file.write(memoryview(bytearray(b"there")))

    assert (file.path, file.name) == ("/tmp/deep/er/note.txt", "note.txt")
    assert await _read(sandbox, "/tmp/deep/er/note.txt") == b"hello there"
    assert (await run(sandbox, "cat /tmp/deep/er/note.txt")).stdout == b"hello there"


async def test_an_open_file_says_what_it_is(sandbox):
    await _write(sandbox, "/tmp/size", b"12345")

    with await sandbox.files.open_read("/tmp/size") as file:
        assert (file.path, file.name, file.size) == ("/tmp/size", "size", 5)
        assert file.streamed is False
        assert abs(file.mtime_ns / 1e9 - time.time()) < 60


async def test_a_file_without_a_size_is_marked_as_streamed(sandbox):
    with await sandbox.files.open_read("/proc/version") as file:
        assert file.streamed is True
        assert os.read(file.fd, 100).startswith(b"Linux")


async def test_writing_truncates_and_reading_goes_on_with_the_same_file(sandbox):
    await _write(sandbox, "/tmp/twice", b"long content")
    await _write(sandbox, "/tmp/twice", b"short")

    assert await _read(sandbox, "/tmp/twice") == b"short"


async def test_earlier_content_stays_until_the_new_one_is_whole_in_the_same_file(sandbox):
    await run(sandbox, "cd /tmp; echo -n earlier > kept; ln kept other; chmod 640 kept; ls -A / >l")
    inode = (await run(sandbox, "stat -c %i /tmp/kept")).stdout

    file = await sandbox.files.open_write("/tmp/kept", metadata={"kind": "new"})
    for _ in range(3):
        await file.write(bytes(1 << 20))
    assert await _read(sandbox, "/tmp/kept") == b"earlier"
    assert (await run(sandbox, "cmp <(ls -A /) /tmp/l")).end.exit_code == 0
    await file.close()

    assert file.metadata == {"kind": "new"}
    assert await _read(sandbox, "/tmp/other") == bytes(3 << 20)
    entry = await sandbox.files.stat("/tmp/kept")
    assert (entry.size, entry.mode, entry.metadata) == (3 << 20, 0o640, {"kind": "new"})
    assert (await run(sandbox, "stat -c %i /tmp/kept")).stdout == inode

    await _write(sandbox, "/tmp/kept", b"short")
    assert await _read(sandbox, "/tmp/other") == b"short"


async def test_a_write_that_fails_or_is_aborted_leaves_earlier_content(sandbox):
    await _write(sandbox, "/tmp/kept", b"earlier", metadata={"kind": "old"})
    before = count_descriptors()

    file = await sandbox.files.open_write("/tmp/kept")
    await file.write(bytes(3 << 20))
    await file.abort()
    with pytest.raises(RuntimeError, match="the source ended"):
        await _write_and_fail(sandbox, "/tmp/kept")

    assert await _read(sandbox, "/tmp/kept") == b"earlier"
    assert (await sandbox.files.stat("/tmp/kept")).metadata == {"kind": "old"}
    await async_until(lambda: count_descriptors() == before)


async def _write_and_fail(sandbox, path: str) -> None:
    async with await sandbox.files.open_write(path) as file:
        await file.write(b"new")
        raise RuntimeError("the source ended")


async def _write_zeros(sandbox, path: str, megabytes: int) -> None:
    async with await sandbox.files.open_write(path) as file:
        for _ in range(megabytes):
            await file.write(bytes(1 << 20))


async def test_a_full_disk_leaves_earlier_content(sandbox):
    await run(sandbox, "echo -n earlier > /dev/shm/kept")
    room = int((await run(sandbox, "df --output=avail -B1 /dev/shm | tail -1")).stdout)
    before = count_descriptors()

    # One is larger than all room, the other one fits only beside nothing else.
    for size in (room + (8 << 20), room * 3 // 4):
        with pytest.raises(NoSpaceError):
            await _write_zeros(sandbox, "/dev/shm/kept", size >> 20)
        assert await _read(sandbox, "/dev/shm/kept") == b"earlier"

    await sandbox.files.remove("/dev/shm/kept")
    await async_until(lambda: count_descriptors() == before)


async def test_a_large_upload_is_complete(sandbox):
    content = os.urandom(1 << 20)
    async with await sandbox.files.open_write("/tmp/large") as file:
        for _ in range(40):
            for start in range(0, len(content), 65536):
                await file.write(content[start : start + 65536])

    assert (await sandbox.files.stat("/tmp/large")).size == 40 << 20
    heard = await run(sandbox, "tail -c 1048576 /tmp/large | cmp - <(head -c 1048576 /tmp/large)")
    assert heard.end.exit_code == 0


async def test_metadata_is_kept_and_replaced(sandbox):
    async with await sandbox.files.open_write("/tmp/tagged", metadata={"kind": "a"}) as file:
        await file.write(b"x")
    assert file.metadata == {"kind": "a"}
    assert (await sandbox.files.stat("/tmp/tagged")).metadata == {"kind": "a"}

    await _write(sandbox, "/tmp/tagged", b"y")
    assert (await sandbox.files.stat("/tmp/tagged")).metadata is None


async def test_a_full_disk_is_told_and_the_part_that_fitted_stays(sandbox):
    mounted = await run(sandbox, "df --output=avail -B1 /dev/shm | tail -1")
    room = int(mounted.stdout)
    before = count_descriptors()

    file = await sandbox.files.open_write("/dev/shm/fill")
    for _ in range(room // (1 << 20)):
        await file.write(bytes(1 << 20))
    with pytest.raises(NoSpaceError):
        await _write_twice(file)
    await file.close()

    assert count_descriptors() == before
    assert (await sandbox.files.stat("/dev/shm/fill")).size > 0
    await sandbox.files.remove("/dev/shm/fill")


async def _write_twice(file) -> None:
    """The bytes of one call may fail in the next one."""
    await file.write(bytes(1 << 20))
    await file.write(bytes(1 << 20))


async def test_the_last_bytes_of_a_full_disk_fail_on_close(sandbox):
    room = int((await run(sandbox, "df --output=avail -B1 /dev/shm | tail -1")).stdout)
    await run(sandbox, f"head -c {room} /dev/zero > /dev/shm/filler")
    before = count_descriptors()

    file = await sandbox.files.open_write("/dev/shm/small")
    await file.write(b"x" * 8192)
    with pytest.raises(NoSpaceError):
        await file.close()

    assert count_descriptors() == before
    await sandbox.files.remove("/dev/shm/filler")


async def test_an_upload_that_is_cancelled_closes_its_file(sandbox):
    before = count_descriptors()
    written = 0

    async def upload():
        nonlocal written
        async with await sandbox.files.open_write("/tmp/cancelled") as file:
            while True:
                await file.write(bytes(1 << 20))
                written += 1
                await asyncio.sleep(0)

    task = asyncio.create_task(upload())
    await async_until(lambda: written > 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await async_until(lambda: count_descriptors() == before)


async def test_entries_are_listed_moved_and_removed(sandbox):
    made = await sandbox.files.make_dir("/tmp/tree/a")
    await _write(sandbox, "/tmp/tree/a/one", b"1")
    await _write(sandbox, "/tmp/tree/two", b"22")

    assert made.type == "FILE_TYPE_DIRECTORY"
    flat = await sandbox.files.list_dir("/tmp/tree", depth=0)
    deep = await sandbox.files.list_dir("/tmp/tree", depth=2)
    assert [entry.name for entry in flat] == ["a", "two"]
    assert [entry.path for entry in deep] == ["/tmp/tree/a", "/tmp/tree/a/one", "/tmp/tree/two"]

    moved = await sandbox.files.move("/tmp/tree/two", "/tmp/tree/b/three")
    assert (moved.path, moved.size) == ("/tmp/tree/b/three", 2)
    await sandbox.files.remove("/tmp/tree")
    await sandbox.files.remove("/tmp/tree")
    with pytest.raises(NotFoundError):
        await sandbox.files.stat("/tmp/tree")


async def test_a_long_listing_is_whole_and_lets_others_have_their_turn(sandbox):
    await run(sandbox, "mkdir /tmp/many && cd /tmp/many && seq 9000 | xargs touch")
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    raw = (await sandbox.call("list_dir", path="/tmp/many", user=None, depth=1)).raw
    counting = asyncio.create_task(count_turns())
    entries = await files._read_listing(Reply(raw, []))
    counting.cancel()

    assert turns >= 2
    assert sorted(int(entry.name) for entry in entries) == list(range(1, 9001))
    assert entries == await sandbox.files.list_dir("/tmp/many")


async def test_files_can_be_composed(sandbox):
    for name in ("a", "b", "c"):
        await _write(sandbox, f"/tmp/parts/{name}", name.encode() * 3)
    sources = [f"/tmp/parts/{name}" for name in ("a", "b", "c")]

    written = await sandbox.files.compose(sources, "/tmp/whole/file")

    assert (written.path, written.name, written.type) == ("/tmp/whole/file", "file", "file")
    assert await _read(sandbox, "/tmp/whole/file") == b"aaabbbccc"
    assert await sandbox.files.list_dir("/tmp/parts") == []


async def test_each_refusal_has_its_error_and_leaks_nothing(sandbox):
    await run(sandbox, "mkfifo /tmp/fifo; mkdir /tmp/folder")
    before = count_descriptors()

    with pytest.raises(NotFoundError, match="path '/tmp/none' does not exist"):
        await sandbox.files.open_read("/tmp/none")
    with pytest.raises(InvalidArgumentError, match="path '/tmp/folder' is a directory"):
        await sandbox.files.open_read("/tmp/folder")
    with pytest.raises(InvalidArgumentError, match="path is a directory: /tmp/folder"):
        await sandbox.files.open_write("/tmp/folder")
    for opening in (sandbox.files.open_read, sandbox.files.open_write):
        with pytest.raises(InvalidArgumentError):
            await asyncio.wait_for(opening("/tmp/fifo"), PATIENCE)
    with pytest.raises(AlreadyExistsError):
        await sandbox.files.make_dir("/tmp/folder")
    with pytest.raises(UnauthenticatedError):
        await sandbox.files.stat("/tmp", user="nobody-like-this")

    assert count_descriptors() == before


async def test_a_write_does_not_hold_up_the_event_loop(sandbox):
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns())
    async with await sandbox.files.open_write("/tmp/big") as file:
        for _ in range(64):
            await file.write(bytes(1 << 20))
    counting.cancel()

    assert turns >= 64
