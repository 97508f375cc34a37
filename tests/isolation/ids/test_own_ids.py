"""Each sandbox of an engine of root runs under host ids of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sbx_jupyter.errors import ResourceExhaustedError
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.ids.blocks import CONTAINER_IDS, SIZE, Blocks, IdRange
from sbx_jupyter.isolation.ids.local_ids import LocalIds
from tests.isolation.inside import Inside, create, sandbox
from tests.waiting import async_until

if TYPE_CHECKING:
    from sbx_jupyter.isolation.tiers import IsolationReport

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


@pytest.fixture
def own(fence: Fence, report: IsolationReport) -> Fence:
    """A fence that gives each sandbox ids of its own."""
    if report.ids != "own":
        pytest.skip(f"ids are shared here: {report.missing}")
    return fence


def base_of(inside: Inside) -> int:
    """The host id of a sandbox's root."""
    found = set()
    for name in ("uid_map", "gid_map"):
        inner, outer, count = Path(f"/proc/{inside.cage.pid}/{name}").read_text().split()
        assert (inner, count) == ("0", str(SIZE))
        found.add(int(outer))
    (base,) = found
    return base


def is_held(base: int) -> bool:
    """Whether some process holds a block."""
    block = Blocks(CONTAINER_IDS, LocalIds()).retake(base)
    if block is not None:
        os.close(block.lock)
    return block is None


async def end(inside: Inside) -> None:
    inside.disconnect()
    await inside.cage.kill()
    inside.cage.close()


async def test_ids_differ_outside_and_are_the_usual_ones_inside_and_on_the_disk(
    own: Fence, data_dir: Path
) -> None:
    async with sandbox(own, data_dir, "ids1") as one, sandbox(own, data_dir, "ids2") as other:
        assert base_of(one) != base_of(other)
        for inside in (one, other):
            assert CONTAINER_IDS.first <= base_of(inside) < CONTAINER_IDS.last
            ran = await inside.run(
                "touch /tmp/r /tmp/u; sudo -n chmod 0 /tmp/r; sudo chown 0:0 /tmp/u;"
                "stat -c %u:%g /tmp/r /tmp/u /usr /home/user; id -u; sudo id -u"
            )
            assert ran.out.split() == ["1000:1000", "0:0", "0:0", "1000:1000", "1000", "0"]
            for name, owner in (("r", 1000), ("u", 0)):
                status = os.stat(inside.cage.writable / "upper/tmp" / name)
                assert (status.st_uid, status.st_gid) == (owner, owner)
        bases = [base_of(one), base_of(other)]
        assert all(map(is_held, bases))
    await async_until(lambda: not any(map(is_held, bases)))


async def test_files_of_one_sandbox_belong_to_the_same_users_in_the_next(
    own: Fence, data_dir: Path
) -> None:
    async with sandbox(own, data_dir, "ids3") as first:
        await first.run("mkdir -m 700 ~/mine; echo text > ~/mine/file")
        layer = data_dir / "layers" / "ids3"
        layer.parent.mkdir(exist_ok=True)
        await own.tree_operations.copy(first.cage.writable / "upper", layer)
    async with sandbox(own, data_dir, "ids4", layers=(layer,)) as second:
        ran = await second.run("cat ~/mine/file; echo more >> ~/mine/file; stat -c %U ~/mine/file")
        assert ran.out == "text\nuser\n"
    await own.tree_operations.remove(layer)


async def test_a_volume_shows_the_same_owners_to_all(own: Fence, data_dir: Path) -> None:
    volume = data_dir / "volumes" / "ids5"
    volume.mkdir(parents=True)
    volume.chmod(0o777)
    mounts = ((volume, "/data"),)
    async with (
        sandbox(own, data_dir, "ids5", volumes=mounts) as one,
        sandbox(own, data_dir, "ids6", volumes=mounts) as other,
    ):
        await one.run("umask 077; echo text > /data/file; cp $(which id) /data/id")
        await one.run("chown root /data/id; chmod 4755 /data/id", user="root")
        ran = await other.run("cat /data/file; stat -c %U /data/file; /data/id -u")
        assert ran.out == "text\nuser\n1000\n"  # set-uid has no effect on a volume
    await own.tree_operations.remove(volume)


async def test_sandboxes_of_two_engines_have_different_ids(
    own: Fence, data_dir: Path, tmp_path: Path, report: IsolationReport
) -> None:
    free = _free_range(4)
    one, other = (
        Fence(folder, report, report.tier, host_ids=free)
        for folder in (data_dir, tmp_path / "other")
    )
    await own.stop()
    await one.start()
    await other.start()
    made = [
        await create(fence, folder, f"two{number}")
        for number in range(2)
        for fence, folder in ((one, data_dir), (other, tmp_path / "other"))
    ]
    bases = [base_of(inside) for inside in made]
    assert sorted(bases) == [number * SIZE for number in free.blocks()]
    with pytest.raises(ResourceExhaustedError, match="every block of 65536 host ids"):
        await create(other, tmp_path / "other", "fifth")
    await end(made[0])
    await async_until(lambda: not is_held(bases[0]))
    fifth = await create(other, tmp_path / "other", "sixth")
    assert base_of(fifth) == bases[0]
    for inside in (*made[1:], fifth):
        await end(inside)
    await one.stop()
    await other.stop()


_CRASHING_ENGINE = """
import asyncio, os, signal, sys
from pathlib import Path
from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.tiers import detect
from tests.isolation.inside import create
import json

async def main():
    data = Path(sys.argv[1])
    report = detect(data)
    fence = Fence(data, report, report.tier)
    await fence.start()
    inside = await create(fence, data, "crash")
    print(json.dumps(inside.cage.to_state()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.long
async def test_a_block_stays_held_when_the_engine_is_killed_and_by_the_next_one(
    own: Fence, report: IsolationReport, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    engine = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CRASHING_ENGINE, str(data), stdout=asyncio.subprocess.PIPE
    )
    told, _ = await asyncio.wait_for(engine.communicate(), 50)
    state = json.loads(told)
    next_engine = Fence(data, report, report.tier)
    await next_engine.start()
    cage = next_engine.adopt("crash", state)
    assert cage is not None
    inside = Inside(cage, data / "run" / "crash.sock")
    base = base_of(inside)
    assert is_held(base)
    await next_engine.stop()
    assert is_held(base)

    # Its holder is killed too: then the next engine takes the block of the living sandbox again.
    for pid in _holders_of(base):
        os.kill(pid, signal.SIGKILL)
    await async_until(lambda: not is_held(base))
    last = Fence(data, report, report.tier)
    await last.start()
    assert is_held(base)
    await inside.connect()
    assert (await inside.run("echo alive")).out == "alive\n"
    await end(inside)
    await async_until(lambda: not is_held(base))
    await last.stop()


async def test_a_killed_holder_is_replaced(own: Fence, data_dir: Path) -> None:
    async with sandbox(own, data_dir, "held") as inside:
        base = base_of(inside)
        (former,) = _holders_of(base)
        os.kill(former, signal.SIGKILL)
        (holder,) = await async_until(lambda: set(_holders_of(base)) - {former})
        assert holder != former
        async with sandbox(own, data_dir, "held2") as second:
            assert is_held(base_of(second))
    await async_until(lambda: not is_held(base))


_HOLDER_IS_GONE = """
import os, select, signal, sys
from pathlib import Path
from sbx_jupyter.agent import procfs
from sbx_jupyter.isolation.ids.blocks import SIZE, Blocks, IdRange
from sbx_jupyter.isolation.ids.holder import Holder
from sbx_jupyter.isolation.ids.local_ids import LocalIds
from sbx_jupyter.isolation.ids.own_ids import OwnIds
from sbx_jupyter.isolation.zygote.cage_records import CageRecords

folder, base = Path(sys.argv[1]), 10 * SIZE

def blocks():
    ids = IdRange(base, base + SIZE - 1)
    return Blocks(ids, LocalIds(str(folder / "no-etc")), str(folder / "run" / "blocks"))

cages = CageRecords(folder / "cages")
state = {"writable": "", "group": {}, "kept": False, "id_base": base}
cages.write("survivor", {**state, **procfs.identity(os.getpid())})
holder = Holder()
(killed,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
os.kill(int(killed), signal.SIGKILL)
os.waitpid(int(killed), 0)
poll = select.poll()
own = OwnIds(blocks(), holder, cages, poll)
((told, _),) = poll.poll()
assert told == own.fileno()
own.replace_holder()
assert blocks().retake(base) is None
"""


def test_a_holder_that_was_killed_before_it_held_anything_is_replaced(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLDER_IS_GONE, str(tmp_path)]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)

    assert ended.returncode == 0, ended.stderr


@pytest.mark.long
async def test_a_sandbox_from_before_the_upgrade_keeps_its_ids(
    fence: Fence, data_dir: Path, report: IsolationReport
) -> None:
    await fence.stop()
    before = Fence(data_dir, replace(report, ids="shared", id_base=200_000), report.tier)
    await before.start()
    old = await create(before, data_dir, "old")
    assert base_of(old) == 200_000
    record: dict[str, Any] = json.loads((data_dir / "cages" / "old").read_text())
    assert "id_base" not in record
    old.disconnect()
    state = old.cage.to_state()
    old.cage.close()
    await before.stop()

    await fence.start()
    cage = fence.adopt("old", state)
    assert cage is not None
    again = Inside(cage, data_dir / "run" / "old.sock")
    await again.connect()
    assert (await again.run("touch /tmp/x; stat -c %U /tmp/x")).out == "user\n"
    assert base_of(again) == 200_000
    async with sandbox(fence, data_dir, "new") as new:
        assert base_of(new) >= CONTAINER_IDS.first
    await end(again)


def _free_range(count: int) -> IdRange:
    """Blocks in a row that nobody holds now."""
    every = CONTAINER_IDS.blocks()
    local = LocalIds()
    start = os.getpid() % (len(every) - 1000)
    for first in every[start:]:
        numbers = range(first, first + count)
        if not any(is_held(n * SIZE) or local.overlap(n * SIZE, SIZE) for n in numbers):
            return IdRange(first * SIZE, (first + count) * SIZE - 1)
    raise AssertionError("no free blocks")


def _holders() -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{name}/comm").read_text() == "sbx-id-holder\n":
                found.append(int(name))
        except OSError:
            continue
    return found


def _holders_of(base: int) -> list[int]:
    """The holders that have the lock of a block."""
    mark = f"{base // SIZE} {base // SIZE}"
    return [pid for pid in _holders() if any(mark in _text(info) for info in _descriptors(pid))]


def _descriptors(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/fdinfo").iterdir())
    except FileNotFoundError:
        return []  # it ended meanwhile


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
