"""The helper under hostile messages, and after its death."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sbx_jupyter.agent import wire
from sbx_jupyter.errors import InvalidArgumentError, NotFoundError, SbxError, UnavailableError
from sbx_jupyter.isolation.privileged import findings, messages
from sbx_jupyter.isolation.privileged.connection import HelperConnection
from sbx_jupyter.isolation.privileged.remote_trees import RemoteTrees
from sbx_jupyter.isolation.privileged.supervisor import start_supervisor
from sbx_jupyter.isolation.root import stock_plan
from sbx_jupyter.isolation.stored.volume_content import Ownership
from sbx_jupyter.isolation.tiers import IsolationReport
from tests.isolation.privileged.conftest import helper_of, options_of
from tests.waiting import async_until

pytestmark = pytest.mark.long

SANDBOX = "i" + "0" * 20
WRITABLE = f"sandboxes/{SANDBOX}"
VOLUME = str(uuid.UUID(int=1))
LAYER = f"layers/{VOLUME}"
STRANGE: list[Any] = [
    "", ".", "..", "../..", "/", "/etc", "/etc/passwd", "layers/../../..", f"{LAYER}/../..",
    f"{LAYER}\n", f"{LAYER}/upper/..", "sandboxes", "helper", "cages", "engine.db", "\0",
    "a" * 5000,
    -1, 0, 2**63, 2**64, 1.5, None, True, [], {}, [[]], ["/etc"] * 3, {"op": "stop"}, "é" * 100,
]  # fmt: skip
EXAMPLES: list[messages.Message] = [
    messages.Describe(),
    messages.Create(
        sandbox_id=SANDBOX, writable=WRITABLE, layers=[LAYER], on_stock=True,
        memory_mb=64, cpu_count=1, processes=16, disk_mb=16, open_files=64,
        volumes=[(VOLUME, "/data")],
    ),
    messages.Adopt(sandbox_id=SANDBOX),
    messages.Kill(sandbox_id=SANDBOX),
    messages.Freeze(sandbox_id=SANDBOX, frozen=True),
    messages.EndProcess(sandbox_id=SANDBOX, pid=1),
    messages.OpenFiles(sandbox_id=SANDBOX),
    messages.Resident(sandbox_id=SANDBOX),
    messages.Collect(known=[SANDBOX]),
    messages.Measure(trees=[LAYER, "stock"]),
    messages.Remove(tree=LAYER),
    messages.Copy(source=f"{WRITABLE}/upper", target=LAYER, since_ns=0, still=True),
    messages.Merge(sources=[LAYER, LAYER], target=LAYER),
    messages.Unpack(target=LAYER, names=["sha256-" + "0" * 64]),
    messages.Seal(writable=WRITABLE, layer=LAYER),
    messages.TakeSnapshot(writable=WRITABLE, layer=LAYER),
    messages.Sync(tree="layers"),
    messages.SetAside(tree=LAYER, kind="layer", reason="nobody names it"),
    messages.MakeVolume(volume_id=VOLUME, limit=0),
    messages.RetireVolume(volume_id=VOLUME),
    messages.RemoveRetired(volume_id=VOLUME),
    messages.StatEntry(volume_id=VOLUME, path="/a"),
    messages.ChangeEntry(volume_id=VOLUME, path="/a", uid=0, gid=0, mode=0o777),
    messages.RemoveEntry(volume_id=VOLUME, path="/a"),
    messages.ListEntries(volume_id=VOLUME, path="/", depth=1),
    messages.MakeFolder(volume_id=VOLUME, path="/a", uid=0, gid=0, mode=0o777, force=True),
    messages.OpenRead(volume_id=VOLUME, path="/a"),
    messages.OpenWrite(volume_id=VOLUME, path="/b", uid=0, gid=0, mode=0o777, force=True),
    messages.FinishWrite(volume_id=VOLUME, path="/b", draft=".0123456789abcdef.sbx-upload",
                         force=True),
    messages.DropWrite(volume_id=VOLUME, path="/b", draft=".0123456789abcdef.sbx-upload"),
    messages.Compare(ours=[LAYER], theirs=[], common=[], on_stock=False),
    messages.Archive(ours=[LAYER], theirs=[], common=[], on_stock=False),
    messages.ConnectTap(sandbox_id=SANDBOX, ranges=[(1, 2)], resolves=True),
    messages.WidenTap(sandbox_id=SANDBOX, ranges=[(1, 2), (3, 4)], resolves=True),
    messages.DisconnectTap(sandbox_id=SANDBOX),
    messages.AdoptTap(sandbox_id=SANDBOX, ranges=[(1, 2)], resolves=False),
    messages.CollectTaps(known=[SANDBOX]),
]  # fmt: skip


def test_there_is_an_example_of_every_message_that_the_engine_sends():
    tags = {type(example) for example in EXAMPLES}
    untried = {messages.Publish, messages.Unpublish, messages.Stop}
    assert tags | untried == set(messages.Any_.__args__)


def mutated(chance: random.Random) -> bytes:
    """A message with something wrong in it, or no message at all."""
    body: dict[str, Any] = msgspec.to_builtins(chance.choice(EXAMPLES))
    kind = chance.randrange(6)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 400))
    for _ in range(chance.randrange(1, 4)):
        field = chance.choice([*body, "more"])
        if kind == 1:
            body.pop(field, None)
        elif isinstance(body.get(field), list) and kind == 2:
            body[field] = [chance.choice(STRANGE)]
        else:
            body[field] = chance.choice(STRANGE)
    raw = json.dumps({"id": chance.randrange(10**6), **body}).encode()
    if kind == 3:
        place = chance.randrange(len(raw))
        raw = raw[:place] + chance.randbytes(3) + raw[place + 1 :]
    return raw[:40_000]


@pytest.mark.parametrize("seed", range(3))
async def test_no_message_ends_the_helper_or_leaves_the_data_directory(
    connection: HelperConnection, data_dir: Path, seed: int
):
    await connection.call(messages.Describe())
    helper = helper_of(data_dir)
    before = outside_of(data_dir)
    channel = connection._channel
    assert channel is not None
    chance = random.Random(seed)

    for number in range(400):
        fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(chance.choice((0, 0, 1, 3)))]
        await send(channel._sock, mutated(chance), fds)
        wire.close_all(fds)
        if number % 100 == 99:
            await connection.call(messages.Describe(), timeout=20)

    assert helper_of(data_dir) == helper
    assert outside_of(data_dir) == before


async def send(sock: socket.socket, datagram: bytes, fds: list[int]) -> None:
    while True:
        try:
            sock.sendmsg([datagram], wire.rights(fds))
            return
        except BlockingIOError:
            await asyncio.sleep(0)


def outside_of(data_dir: Path) -> dict[str, int]:
    """What lies beside the data directory and where a path that leads out of it would lead."""
    folders = ("/", "/etc", "/tmp", str(data_dir.parent))
    found = {name: os.stat(name).st_mtime_ns for name in ("/etc", "/etc/passwd", "/etc/shadow")}
    found |= {f"{folder} has etc": int("etc" in os.listdir(folder)) for folder in folders}
    return found | dict.fromkeys(os.listdir(data_dir.parent), 1)


async def test_valid_messages_change_what_is_there(connection: HelperConnection, data_dir: Path):
    trees = RemoteTrees(connection)
    await asyncio.to_thread(trees.make_volume, VOLUME)
    volume = trees.volume(VOLUME, real_ids=True)
    target = await asyncio.to_thread(volume.open_write, "/a/b", Ownership(uid=5), force=True)
    os.write(target.descriptor, b"hello")
    os.close(target.descriptor)
    await asyncio.to_thread(volume.finish_write, "/a/b", target.name, force=True)
    dropped = await asyncio.to_thread(volume.open_write, "/a/c", Ownership(), force=False)
    os.close(dropped.descriptor)
    await asyncio.to_thread(volume.drop_write, "/a/c", dropped.name)

    listed = await asyncio.to_thread(volume.list_dir, "/", 2)
    source, size = await asyncio.to_thread(volume.open_read, "/a/b")

    assert [entry.path for entry in listed] == ["/a", "/a/b"]
    assert (os.read(source, 10), size) == (b"hello", 5)
    os.close(source)
    with pytest.raises(NotFoundError):
        await asyncio.to_thread(volume.stat, "/missing")
    with pytest.raises(FileExistsError):
        await asyncio.to_thread(trees.make_volume, VOLUME)


async def test_processes_of_others_are_left_alone(connection: HelperConnection):
    message = messages.EndProcess(sandbox_id=SANDBOX, pid=os.getpid())
    with pytest.raises(NotFoundError):
        await connection.call(message)


async def test_a_name_that_is_a_path_is_refused(connection: HelperConnection):
    await connection.call(messages.Describe())
    with pytest.raises(InvalidArgumentError):
        await connection.call(messages.Remove(tree="layers/../../etc"))


async def test_a_dead_helper_fails_its_calls_at_once_and_is_replaced(
    connection: HelperConnection, data_dir: Path
):
    body, _ = await connection.call(messages.Describe())
    kept = data_dir / "helper" / "findings.json"
    record = msgspec.json.decode(kept.read_bytes())
    record["findings"]["report"]["freezer"] = "as the first helper found it"
    kept.write_bytes(msgspec.json.encode(record))
    first = helper_of(data_dir)
    os.kill(first, signal.SIGSTOP)
    pending = asyncio.ensure_future(connection.call(messages.Sync(tree="layers")))
    await asyncio.sleep(0)

    since = time.monotonic()
    os.kill(first, signal.SIGKILL)
    with pytest.raises(UnavailableError):
        await pending

    assert time.monotonic() - since < 5
    next_body, _ = await connection.call(messages.Describe())
    assert helper_of(data_dir) != first
    assert (next_body["tier"], next_body["stock"]) == (body["tier"], body["stock"])
    # The next one does not try and search the machine again: callers wait for it.
    assert next_body["report"]["freezer"] == "as the first helper found it"


def test_a_helper_believes_only_what_one_of_its_own_engine_found(data_dir: Path):
    kept = data_dir / "helper" / "findings.json"
    plan = stock_plan.plan_stock(real_users=True, host_root_mapped=True)
    report = IsolationReport("namespaces", "root-mapped", {}, "signals", reflink=False, missing=[])
    found = findings.Findings(report=report, layer="/stock", plan=plan)

    findings.write(kept, found)
    assert findings.read(kept) == found

    record = msgspec.json.decode(kept.read_bytes())
    for damaged in (b"", b"{}", b"\xff", msgspec.json.encode({**record, "findings": {}})):
        kept.write_bytes(damaged)
        assert findings.read(kept) is None
    record["supervisor"]["start_time"] += 1
    kept.write_bytes(msgspec.json.encode(record))
    assert findings.read(kept) is None


async def test_a_helper_that_could_not_start_is_replaced(data_dir: Path):
    stock = data_dir / "stock"
    shutil.rmtree(stock, ignore_errors=True)
    stock.write_text("in the way")
    opened = HelperConnection(start_supervisor(msgspec.json.encode(options_of(data_dir)).decode()))

    async def is_ready() -> bool:
        try:
            await opened.call(messages.Describe())
        except SbxError:
            return False
        return True

    assert not await is_ready()
    stock.unlink()
    try:
        await async_until(is_ready)
    finally:
        await opened.aclose(messages.Stop())


async def test_a_call_to_a_helper_that_does_not_start_is_repeated_with_the_next(data_dir: Path):
    stock = data_dir / "stock"
    shutil.rmtree(stock, ignore_errors=True)
    stock.write_text("in the way")
    opened = HelperConnection(start_supervisor(msgspec.json.encode(options_of(data_dir)).decode()))
    try:
        with pytest.raises(UnavailableError, match="the helper did not start"):
            await opened.call(messages.Sync(tree="layers"))
        waiting = asyncio.ensure_future(opened.insist(messages.Sync(tree="layers")))
        stock.unlink()
        await waiting
    finally:
        await opened.aclose(messages.Stop())


async def test_without_a_supervisor_the_last_helper_serves_and_its_end_is_told_at_once(
    connection: HelperConnection, data_dir: Path
):
    await connection.call(messages.Describe())
    connection._process.kill()
    await async_until(lambda: connection._is_last)
    await connection.call(messages.Describe())

    os.kill(helper_of(data_dir), signal.SIGKILL)
    await async_until(lambda: connection._channel is None)

    async with asyncio.timeout(20):  # it used to wait half a minute for the next one
        with pytest.raises(UnavailableError, match="restart the engine"):
            await connection.insist(messages.Sync(tree="layers"))


async def test_the_helper_ends_with_the_engine(connection: HelperConnection, data_dir: Path):
    await connection.call(messages.Describe())
    helper = os.pidfd_open(helper_of(data_dir))
    connection._loop.remove_reader(connection._control)
    connection._control.close()
    channel = connection._channel
    assert channel is not None
    try:
        channel.close()
        await async_until(lambda: has_ended(helper))
    finally:
        os.close(helper)


def has_ended(pidfd: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    return False
