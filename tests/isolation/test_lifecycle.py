"""Making, freezing, adopting and ending sandboxes, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.errors import InvalidArgumentError, IsolationError, UnavailableError
from sbx_jupyter.isolation.fence import Fence
from tests.isolation.mounts import mounts_besides_tests
from tests.waiting import PATIENCE, async_until

from .inside import Inside, create, sandbox, spec_for

if TYPE_CHECKING:
    from sbx_jupyter.isolation.tiers import IsolationReport


async def test_nothing_is_left_of_a_killed_sandbox(fence: Fence, data_dir: Path) -> None:
    mounts, descriptors = mounts_besides_tests(data_dir), _descriptors()
    async with sandbox(fence, data_dir, "gone1") as inside:
        await inside.start("setsid sleep 1000 & (sleep 1000 &) ; wait")
        await inside.run("mkdir -p ~/a/b/c; chmod 000 ~/a/b; mkdir -m 0 /srv/x", user="root")
        await async_until(lambda: len(_processes_of(inside)) >= 3)
        pids = _processes_of(inside)
        groups = inside.cage.to_state()["group"].values()
        writable = inside.cage.writable
    assert not any(Path(f"/proc/{pid}").exists() and _alive(pid) for pid in pids)
    assert not any(Path(path).exists() for path in groups)
    assert not writable.exists()
    assert mounts_besides_tests(data_dir) == mounts
    assert _descriptors() == descriptors
    assert not (data_dir / "cages" / "gone1").exists()


async def test_no_control_group_of_a_stopped_engine_is_left(
    tmp_path: Path, report: IsolationReport
) -> None:
    data_dir = tmp_path / "data"
    fence = Fence(data_dir, report, report.tier)
    await fence.start()
    async with sandbox(fence, data_dir, "grouped") as inside:
        groups = [Path(path) for path in inside.cage.to_state()["group"].values()]
        assert all(path.is_dir() for path in groups)
    await fence.stop()
    assert not any(path.parent.exists() for path in groups)


async def test_work_that_goes_on_while_an_engine_stops_starts_no_zygote_again(
    fence: Fence, data_dir: Path
) -> None:
    assert fence.zygote_pid is not None
    os.kill(fence.zygote_pid, signal.SIGSTOP)  # so that the work takes longer
    working = asyncio.create_task(fence.tree_operations.measure_all([data_dir]))
    await asyncio.sleep(0)

    await asyncio.wait_for(fence.stop(), 30)

    with pytest.raises(UnavailableError):
        await asyncio.wait_for(working, 30)
    assert _zygotes() == []
    with pytest.raises(UnavailableError, match="the engine is stopping"):
        await fence.tree_operations.measure_all([data_dir])
    await fence.start()  # the same object serves again
    assert fence.zygote_pid is not None


async def test_a_zygote_that_does_not_answer_is_not_said_to_be_killed(
    tmp_path: Path, report: IsolationReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = "sbx_jupyter.isolation.zygote.client"
    monkeypatch.setattr(f"{client}._START", "import time; time.sleep(60)")
    monkeypatch.setattr(f"{client}._BUILD_TIMEOUT", 0.1)
    fence = Fence(tmp_path / "data", report, report.tier)
    with pytest.raises(IsolationError, match=r"no answer within 0\.1 s"):
        await fence.start()
    await fence.stop()


async def test_ending_the_first_process_is_noticed(fence: Fence, data_dir: Path) -> None:
    async with sandbox(fence, data_dir, "dies1") as inside:
        waiting = asyncio.create_task(inside.cage.wait_dead())
        await asyncio.sleep(0.01)  # nothing ends it by itself
        assert not waiting.done()
        os.kill(inside.cage.pid, signal.SIGKILL)
        await asyncio.wait_for(waiting, PATIENCE)


async def test_sandboxes_survive_their_zygote_and_the_next_one_is_made(
    fence: Fence, data_dir: Path
) -> None:
    async with sandbox(fence, data_dir, "before") as before:
        zygote = fence.zygote_pid
        assert zygote is not None
        os.kill(zygote, signal.SIGKILL)
        async with sandbox(fence, data_dir, "after") as after:
            assert (await after.run("echo new")).out == "new\n"
            assert fence.zygote_pid != zygote
        assert (await before.run("echo old")).out == "old\n"


async def test_the_zygote_ends_with_its_engine_and_the_sandbox_goes_on(
    fence: Fence, data_dir: Path
) -> None:
    inside = await create(fence, data_dir, "outlives")
    zygote = fence.zygote_pid
    inside.disconnect()
    await fence.stop()
    assert not Path(f"/proc/{zygote}").exists()
    again = Inside(inside.cage, data_dir / "run" / "outlives.sock")
    await again.connect()
    assert (await again.run("echo alive")).out == "alive\n"
    again.disconnect()
    await inside.cage.kill()
    inside.cage.close()


async def test_a_sandbox_is_adopted_by_another_engine(
    fence: Fence, data_dir: Path, report: IsolationReport
) -> None:
    inside = await create(fence, data_dir, "adopted")
    inside.disconnect()
    state = json.loads(json.dumps(inside.cage.to_state()))
    inside.cage.close()
    other = Fence(data_dir, report, report.tier)
    await other.start()
    try:
        cage = other.adopt("adopted", state)
        assert cage is not None
        again = Inside(cage, data_dir / "run" / "adopted.sock")
        await again.connect()
        assert (await again.run("echo here")).out == "here\n"
        again.disconnect()
        await cage.kill()
        cage.close()
        assert other.adopt("adopted", state) is None
    finally:
        await other.stop()


async def test_a_recycled_process_id_is_not_adopted(fence: Fence, data_dir: Path) -> None:
    async with sandbox(fence, data_dir, "recycled") as inside:
        state = inside.cage.to_state()
        assert fence.adopt("recycled", {**state, "start_time": state["start_time"] - 1}) is None
        assert fence.adopt("recycled", {**state, "boot_id": "another"}) is None


async def test_collect_kills_what_nobody_knows_and_nothing_else(
    fence: Fence, data_dir: Path
) -> None:
    async with sandbox(fence, data_dir, "known") as known:
        stray = await create(fence, data_dir, "stray")
        stray.disconnect()
        await fence.collect({"known"})
        await asyncio.wait_for(stray.cage.wait_dead(), PATIENCE)
        assert not any(Path(p).exists() for p in stray.cage.to_state()["group"].values())
        stray.cage.close()
        assert (await known.run("echo here")).out == "here\n"


async def test_a_frozen_sandbox_stands_still_and_goes_on(
    fence: Fence, data_dir: Path, report: IsolationReport
) -> None:
    if report.freezer == "signals":
        pytest.skip("needs a freezer control group")
    async with sandbox(fence, data_dir, "frozen") as inside:
        await inside.start("while :; do date +%s%N > /tmp/now; sleep 0.01; done")
        now = inside.cage.writable / "upper/tmp/now"
        await async_until(now.exists)
        await inside.cage.freeze()
        seen = now.read_text()
        await asyncio.sleep(0.15)  # fifteen times as long as it sleeps
        assert now.read_text() == seen
        await inside.cage.thaw()
        await async_until(lambda: now.read_text() not in ("", seen))


async def test_a_frozen_sandbox_can_be_killed(
    fence: Fence, data_dir: Path, report: IsolationReport
) -> None:
    if report.freezer == "signals":
        pytest.skip("needs a freezer control group")
    async with sandbox(fence, data_dir, "frozen2") as inside:
        await inside.start("sleep 1000")
        await inside.cage.freeze()
        await asyncio.wait_for(inside.cage.kill(), PATIENCE)


async def test_a_failed_setup_says_why_and_leaves_nothing(fence: Fence, data_dir: Path) -> None:
    empty = data_dir / "layers" / "no-root"
    empty.mkdir(parents=True)
    (empty / "proc").write_text("not a directory")
    descriptors = _descriptors()
    with pytest.raises(InvalidArgumentError, match="'proc' of the template is not a directory"):
        await create(fence, data_dir, "bad1", base="", layers=(empty,))
    with pytest.raises(IsolationError, match="No such file"):
        await create(fence, data_dir, "bad2", layers=(data_dir / "layers" / "absent",))
    assert _descriptors() == descriptors
    assert not {"bad1", "bad2"} & set(os.listdir(data_dir / "cages"))
    await fence.tree_operations.remove(data_dir / "sandboxes" / "bad1")


async def test_paths_outside_the_data_directory_are_refused(
    fence: Fence, data_dir: Path, tmp_path: Path
) -> None:
    refused = pytest.raises(IsolationError, match="not in the data directory")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, refused:
        await fence.create(spec_for(data_dir, "out", layers=(tmp_path,)), listener)
    with pytest.raises(IsolationError, match="not in the data directory"):
        await fence.tree_operations.remove(tmp_path)
    assert tmp_path.exists()


async def test_many_sandboxes_are_made_at_once(fence: Fence, data_dir: Path) -> None:
    made = await asyncio.gather(*(create(fence, data_dir, f"many{i}") for i in range(8)))
    names = [(await inside.run("hostname")).out.strip() for inside in made]
    assert names == [f"many{i}" for i in range(8)]
    for inside in made:
        inside.disconnect()
        await inside.cage.kill()
        inside.cage.close()
        await fence.tree_operations.remove(inside.cage.writable)


@pytest.mark.long
async def test_a_very_deep_tree_is_removed(fence: Fence, data_dir: Path) -> None:
    async with sandbox(fence, data_dir, "deep") as inside:
        ran = await inside.run(
            'python -c \'import os\nos.chdir("/tmp")\nfor _ in range(3000):\n    '
            'os.mkdir("d"); os.chdir("d")\''
        )
        assert ran.status == 0, ran.err
    assert not (data_dir / "sandboxes" / "deep").exists()


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _processes_of(inside: Inside) -> list[int]:
    own = os.readlink(f"/proc/{inside.cage.pid}/ns/pid") if os.getuid() == 0 else None
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/ns/pid") == own:
                found.append(int(name))
        except OSError:
            continue
    return found


def _zygotes() -> list[str]:
    """The zygotes below this process."""
    children = Path("/proc/self/task").glob("*/children")
    found = [pid for text in children for pid in text.read_text().split()]
    return [pid for pid in found if b"zygote" in Path(f"/proc/{pid}/cmdline").read_bytes()]
