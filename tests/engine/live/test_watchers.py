"""Watchers over a real agent."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbx_jupyter.engine.live import inotify, watcher
from sbx_jupyter.engine.live.sandbox import Sandbox
from sbx_jupyter.engine.live.subscriptions import DisconnectedError, Ended
from sbx_jupyter.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from sbx_jupyter.isolation.channel import Reply
from sbx_jupyter.protocol.runtime import (
    FilesystemEvent,
    ProcessConfig,
    StartRequest,
    WatchDirRequest,
)
from tests.engine.live.running import count_descriptors
from tests.waiting import PATIENCE

FOLDER = "/home/user/watched"


@pytest.fixture
async def sandbox(make_sandbox: Callable[..., Awaitable[Sandbox]]) -> Sandbox:
    """A live sandbox with an empty directory to watch."""
    made = await make_sandbox()
    await made.files.make_dir(FOLDER)
    return made


async def shell(sandbox: Sandbox, script: str) -> None:
    """Run a script inside, in the watched directory, to its end."""
    config = ProcessConfig(cmd="/bin/sh", args=["-ec", script], cwd=FOLDER)
    process = await sandbox.processes.start(StartRequest(process=config, stdin=False))
    last = None
    async with process.subscribe() as outputs:
        async for event in outputs:
            last = event
    assert isinstance(last, Ended)
    assert last.end.exit_code == 0


def told(events: list[FilesystemEvent]) -> list[tuple[str, str]]:
    return [(event.name, event.type.removeprefix("EVENT_TYPE_")) for event in events]


async def next_events(watch: watcher.Watcher, count: int) -> list[FilesystemEvent]:
    async with asyncio.timeout(PATIENCE):
        return [await anext(watch) for _ in range(count)]


async def test_an_upload_is_told_as_create_chmod_write_at_once(sandbox: Sandbox) -> None:
    watcher_id = await sandbox.watchers.create(WatchDirRequest(path=FOLDER))

    async with await sandbox.files.open_write(f"{FOLDER}/new.txt") as file:
        await file.write(b"content")

    expected = [("new.txt", "CREATE"), ("new.txt", "CHMOD"), ("new.txt", "WRITE")]
    assert told(await sandbox.watchers.events(watcher_id)) == expected
    assert await sandbox.watchers.events(watcher_id) == []


async def test_a_long_upload_is_told_as_one_write(sandbox: Sandbox) -> None:
    request = WatchDirRequest(path=FOLDER, include_entry=True)
    watcher_id = await sandbox.watchers.create(request)

    async with await sandbox.files.open_write(f"{FOLDER}/long") as file:
        for _ in range(20):
            await file.write(bytes(100_000))
            await asyncio.sleep(0.01)  # so that the kernel's events are read in between

    events = await sandbox.watchers.events(watcher_id)
    assert told(events) == [("long", "CREATE"), ("long", "CHMOD"), ("long", "WRITE")]
    assert events[-1].entry is not None
    assert events[-1].entry.size == 2_000_000


async def test_of_a_file_that_is_replaced_watchers_hear_no_other_name(sandbox: Sandbox) -> None:
    await shell(sandbox, "echo earlier > there")
    watcher_id = await sandbox.watchers.create(WatchDirRequest(path=FOLDER))

    file = await sandbox.files.open_write(f"{FOLDER}/there")
    await file.write(bytes(2 << 20))
    assert told(await sandbox.watchers.events(watcher_id)) == []
    await file.close()

    expected = [("there", "CHMOD"), ("there", "WRITE")]
    assert told(await sandbox.watchers.events(watcher_id)) == expected


async def test_changes_of_children_are_told_with_relative_names(sandbox: Sandbox) -> None:
    await shell(sandbox, "echo > old")
    watch = await sandbox.watchers.watch(WatchDirRequest(path=FOLDER))

    await shell(sandbox, "mv old new; chmod 600 new; rm new")

    expected = [("old", "RENAME"), ("new", "CREATE"), ("new", "CHMOD"), ("new", "REMOVE")]
    assert told(await next_events(watch, 4)) == expected
    await sandbox.watchers.close(watch)


async def test_without_recursion_only_direct_children_are_told_of(
    sandbox: Sandbox,
) -> None:
    watcher_id = await sandbox.watchers.create(WatchDirRequest(path=FOLDER))

    await shell(sandbox, "mkdir sub; echo > sub/below")

    assert told(await sandbox.watchers.events(watcher_id)) == [("sub", "CREATE")]


async def test_new_folders_are_followed_and_nothing_falls_in_between(sandbox: Sandbox) -> None:
    request = WatchDirRequest(path=FOLDER, recursive=True)
    watcher_id = await sandbox.watchers.create(request)

    await shell(sandbox, "mkdir -p a/b; echo > a/b/early")
    first = told(await sandbox.watchers.events(watcher_id))
    await shell(sandbox, "echo > a/b/late")
    second = told(await sandbox.watchers.events(watcher_id))

    assert first.count(("a/b/early", "CREATE")) == 1
    assert first[0] == ("a", "CREATE")
    assert first.index(("a/b", "CREATE")) < first.index(("a/b/early", "CREATE"))
    assert ("a/b/early", "WRITE") in first
    assert second == [("a/b/late", "CREATE"), ("a/b/late", "WRITE")]


async def test_a_renamed_folder_is_watched_under_its_new_name(sandbox: Sandbox) -> None:
    await shell(sandbox, "mkdir old")
    request = WatchDirRequest(path=FOLDER, recursive=True)
    watcher_id = await sandbox.watchers.create(request)

    await shell(sandbox, "mv old new; : > new/file")

    expected = [("old", "RENAME"), ("new", "CREATE"), ("new/file", "CREATE")]
    assert told(await sandbox.watchers.events(watcher_id)) == expected


async def test_a_folder_that_was_moved_away_is_no_longer_told_of(sandbox: Sandbox) -> None:
    await shell(sandbox, "mkdir sub")
    request = WatchDirRequest(path=FOLDER, recursive=True)
    watcher_id = await sandbox.watchers.create(request)

    await shell(sandbox, "mv sub ../outside; : > ../outside/file")

    assert told(await sandbox.watchers.events(watcher_id)) == [("sub", "RENAME")]


async def test_entries_come_only_when_asked_for_and_only_with_some_types(sandbox: Sandbox) -> None:
    request = WatchDirRequest(path=FOLDER, include_entry=True)
    watcher_id = await sandbox.watchers.create(request)

    await shell(sandbox, "echo abc > kept; : > gone; rm gone")
    events = await sandbox.watchers.events(watcher_id)

    sizes = {(event.name, event.type): event.entry and event.entry.size for event in events}
    # They may have been looked at before the one went and the other was written.
    del sizes["gone", "EVENT_TYPE_CREATE"]
    assert sizes.pop(("kept", "EVENT_TYPE_CREATE")) in (0, 4)
    assert sizes == {
        ("kept", "EVENT_TYPE_WRITE"): 4,
        ("gone", "EVENT_TYPE_REMOVE"): None,
    }


async def test_the_watched_directory_itself_is_told_as_a_dot(sandbox: Sandbox) -> None:
    watcher_id = await sandbox.watchers.create(WatchDirRequest(path=FOLDER))

    await shell(sandbox, f"chmod 700 .; rmdir {FOLDER}")

    events = told(await sandbox.watchers.events(watcher_id))
    assert events[0] == (".", "CHMOD")
    assert events[-1] == (".", "REMOVE")


async def test_what_cannot_be_watched_is_refused(sandbox: Sandbox) -> None:
    await shell(sandbox, ": > file")

    with pytest.raises(NotFoundError):
        await sandbox.watchers.create(WatchDirRequest(path=f"{FOLDER}/missing"))
    with pytest.raises(InvalidArgumentError):
        await sandbox.watchers.create(WatchDirRequest(path=f"{FOLDER}/file"))


async def test_a_watcher_is_unknown_after_its_removal(sandbox: Sandbox) -> None:
    watcher_id = await sandbox.watchers.create(WatchDirRequest(path=FOLDER))

    await sandbox.watchers.remove(watcher_id)

    for use in (sandbox.watchers.events, sandbox.watchers.remove):
        with pytest.raises(NotFoundError):
            await use(watcher_id)


async def test_too_many_events_end_a_watcher_for_good(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "MAX_EVENTS", 50)
    watcher_id = await sandbox.watchers.create(WatchDirRequest(path=FOLDER))

    await shell(sandbox, "for i in $(seq 60); do : > $i; done")

    for _ in range(2):
        with pytest.raises(ResourceExhaustedError):
            await sandbox.watchers.events(watcher_id)
    await sandbox.watchers.remove(watcher_id)


async def test_a_tree_that_is_moved_in_is_told_in_full(sandbox: Sandbox) -> None:
    await shell(sandbox, "mkdir -p ../made/a/b; echo x > ../made/a/b/f; ln -s f ../made/a/l")
    watcher_id = await sandbox.watchers.create(WatchDirRequest(path=FOLDER, recursive=True))

    await shell(sandbox, "mv ../made tree; echo y > tree/a/late")

    events = told(await sandbox.watchers.events(watcher_id))
    tree = ["tree", "tree/a", "tree/a/b", "tree/a/l", "tree/a/b/f", "tree/a/late"]
    created = [name for name, kind in events if kind == "CREATE"]
    assert sorted(created) == sorted(tree)
    assert [name for name, kind in events if kind == "WRITE"] in ([], ["tree/a/late"])


async def test_a_tree_that_is_renamed_is_told_under_its_new_name(sandbox: Sandbox) -> None:
    await shell(sandbox, "mkdir -p old/sub; echo x > old/sub/f")
    watcher_id = await sandbox.watchers.create(WatchDirRequest(path=FOLDER, recursive=True))

    await shell(sandbox, "mv old new")

    expected = [
        ("old", "RENAME"),
        ("new", "CREATE"),
        ("new/sub", "CREATE"),
        ("new/sub/f", "CREATE"),
    ]
    assert told(await sandbox.watchers.events(watcher_id)) == expected


def folders_in_kernel(sandbox: Sandbox) -> int:
    """How many folders the one inotify instance of the sandbox watches."""
    with open(f"/proc/self/fdinfo/{sandbox.watchers._shared._fd}") as lines:
        return sum(line.startswith("inotify wd:") for line in lines)


async def test_all_watchers_share_one_instance(sandbox: Sandbox) -> None:
    await shell(sandbox, "for n in $(seq 140); do mkdir $n; done")
    watched = {
        number: await sandbox.watchers.create(WatchDirRequest(path=f"{FOLDER}/{number}"))
        for number in range(1, 141)
    }

    await shell(sandbox, "for n in 1 70 140; do : > $n/file; done")

    assert folders_in_kernel(sandbox) == 140
    for number, watcher_id in watched.items():
        expected = [("file", "CREATE")] if number in (1, 70, 140) else []
        assert told(await sandbox.watchers.events(watcher_id)) == expected
    for watcher_id in watched.values():
        await sandbox.watchers.remove(watcher_id)
    assert sandbox.watchers._shared._fd == -1


async def test_watchers_of_one_directory_are_told_alike_and_end_apart(sandbox: Sandbox) -> None:
    await shell(sandbox, "mkdir -p sub/deep other")
    tree = await sandbox.watchers.create(WatchDirRequest(path=FOLDER, recursive=True))
    same = await sandbox.watchers.create(WatchDirRequest(path=FOLDER))
    deep = await sandbox.watchers.watch(WatchDirRequest(path=f"{FOLDER}/sub/deep"))
    assert folders_in_kernel(sandbox) == 4

    await shell(sandbox, ": > top; : > sub/deep/file")

    events = told(await sandbox.watchers.events(tree))
    assert events == [("top", "CREATE"), ("sub/deep/file", "CREATE")]
    assert told(await sandbox.watchers.events(same)) == [("top", "CREATE")]
    assert told(await next_events(deep, 1)) == [("file", "CREATE")]

    await sandbox.watchers.remove(tree)
    assert folders_in_kernel(sandbox) == 2
    await shell(sandbox, "rm top sub/deep/file; : > other/unseen")
    assert told(await sandbox.watchers.events(same)) == [("top", "REMOVE")]
    assert told(await next_events(deep, 1)) == [("file", "REMOVE")]
    await sandbox.watchers.close(deep)
    assert folders_in_kernel(sandbox) == 1


async def test_watchers_come_and_go_at_once_without_a_loss(sandbox: Sandbox) -> None:
    kept = await sandbox.watchers.create(WatchDirRequest(path=FOLDER))

    async def come_and_go() -> None:
        for _ in range(10):
            watch = await sandbox.watchers.watch(WatchDirRequest(path=FOLDER, recursive=True))
            await sandbox.watchers.close(watch)

    await asyncio.gather(*(come_and_go() for _ in range(4)))
    await shell(sandbox, ": > file")

    assert told(await sandbox.watchers.events(kept)) == [("file", "CREATE")]
    assert folders_in_kernel(sandbox) == 1


async def test_a_sandbox_that_ends_takes_its_watches_along(sandbox: Sandbox) -> None:
    watch = await sandbox.watchers.watch(WatchDirRequest(path=FOLDER))
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)

    await sandbox.aclose()

    with pytest.raises(UnavailableError):
        await waiting
    await sandbox.watchers.close(watch)


async def test_closing_a_watch_ends_its_iteration(sandbox: Sandbox) -> None:
    watch = await sandbox.watchers.watch(WatchDirRequest(path=FOLDER))
    waiting = asyncio.ensure_future(anext(watch, None))
    await asyncio.sleep(0)

    await sandbox.watchers.close(watch)

    assert await waiting is None


async def test_no_stream_waits_for_events_of_a_paused_sandbox(sandbox: Sandbox) -> None:
    sandbox.disconnect()
    with pytest.raises(DisconnectedError):
        await sandbox.watchers.watch(WatchDirRequest(path=FOLDER))

    sandbox.resume()
    watch = await sandbox.watchers.watch(WatchDirRequest(path=FOLDER))
    await shell(sandbox, "echo > file")
    assert told(await next_events(watch, 1)) == [("file", "CREATE")]


async def test_a_watcher_that_begins_as_its_sandbox_ends_leaves_nothing(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end_after(op: str, **fields: Any) -> Reply:
        reply = await call(op, **fields)
        sandbox.watchers.abandon(UnavailableError("the sandbox is not running any more"))
        return reply

    call = sandbox.call
    before = count_descriptors()
    monkeypatch.setattr(sandbox, "call", end_after)

    for begin in (sandbox.watchers.watch, sandbox.watchers.create):
        with pytest.raises(UnavailableError):
            await begin(WatchDirRequest(path=FOLDER))
    assert count_descriptors() == before


@given(st.binary(max_size=200))
def test_whatever_bytes_come_are_parsed_or_refused(raw: bytes) -> None:
    try:
        events = inotify.parse(raw)
    except InternalError:
        return
    assert all("\0" not in event.name for event in events)


def test_one_event_with_several_meanings_is_split_in_order() -> None:
    raw = struct.pack("iIII", 1, 0x100 | 0x200 | 0x2 | 0x4 | 0x40, 0, 8) + b"name\0\0\0\0"

    (event,) = inotify.parse(raw)

    assert event.name == "name"
    assert [kind.removeprefix("EVENT_TYPE_") for kind in event.types] == [
        "CREATE",
        "RENAME",
        "CHMOD",
        "WRITE",
        "REMOVE",
    ]


def test_only_inotify_descriptors_are_taken() -> None:
    reader, writer = os.pipe()

    assert not inotify.is_inotify(reader)

    os.close(reader)
    os.close(writer)
