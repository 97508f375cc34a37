"""Programs that hide what they hold do not get past their limits, on each kind of machine.

On a disk with quotas the kernel refuses; on a plain disk, and where there are no control groups,
the engine finds them. ``test_siege.py`` tries the same as ordinary users.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sbx_jupyter.cli import storage
from sbx_jupyter.engine.engine import Engine, EngineConfig
from sbx_jupyter.errors import FailedPreconditionError
from sbx_jupyter.isolation import limits, tiers
from sbx_jupyter.isolation.fence_spec import Limits
from sbx_jupyter.isolation.kernel import cgroups, subvolumes
from sbx_jupyter.isolation.kernel.hierarchies import Hierarchies
from tests import helped
from tests.engine.conftest import FAST_DISK
from tests.engine.live.running import bash, listen
from tests.engine.living import create, messages, run
from tests.engine.storage.test_storage import missing
from tests.helped import engine_of
from tests.mounted_disk import mount
from tests.security import holding
from tests.waiting import async_until

DISK_MB = 64
MEMORY_MB = 256
PATIENCE = 60.0
"""Seconds for which a program holds what it has: a watched one is ended long before."""
AT_ONCE = 3
ON_DISK = {
    **holding.DISK,
    "in connections that nobody accepts": holding.WAITING_CONNECTION,
    "in a volume": holding.VOLUME,
}
MIB = 1 << 20

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount and to leave groups"),
]


@dataclass
class Tried:
    """What became of the programs on one kind of machine."""

    words: dict[str, str]
    said: dict[str, str] = field(default_factory=dict[str, str])
    """Program to what it printed before it ended."""

    logged: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@contextlib.asynccontextmanager
async def running(data_dir: Path, disk_mb: int = DISK_MB) -> AsyncIterator[Engine]:
    sizes = Limits(MEMORY_MB, 1, 200, disk_mb, 1024)
    engine = engine_of(
        EngineConfig(data_dir, pool_size=0, default_limits=sizes, volume_size_mb=DISK_MB)
    )
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop(kill_sandboxes=True)


async def try_all(data_dir: Path, programs: dict[str, str], disk_mb: int, user: str) -> Tried:
    """Run each program in a sandbox of its own, two at a time."""
    async with running(data_dir, disk_mb) as engine:
        tried = Tried(engine.report.to_json()["limit_words"])
        room = asyncio.Semaphore(AT_ONCE)
        await engine.attachments.volumes.create("data")
        mounts = [{"name": "data", "path": "/volume"}]

        async def attempt(name: str, body: str) -> None:
            async with room:
                mounted = {"volumeMounts": mounts} if "/volume" in body else {}
                row = await create(engine, **mounted)
                tried.said[name] = await hold(engine, row.sandbox_id, body, user)
                if "everything" not in tried.said[name] and "Errno" not in tried.said[name]:
                    # What was ended is logged right afterwards.
                    with contextlib.suppress(AssertionError):
                        await async_until(lambda: _reasons(engine, row.sandbox_id))
                tried.logged[name] = messages(engine, row.sandbox_id)
                await engine.sandboxes.kill(row.sandbox_id)

        await asyncio.gather(*(attempt(*program) for program in programs.items()))
        return tried


@pytest.fixture(scope="module")
def quota_disk() -> Iterator[Path]:
    """A data directory on btrfs with quotas, as ``jupyter sbx storage create`` makes it."""
    if why := missing("btrfs"):
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="plat-quota-", dir="/tmp"))
    plan = storage.Plan(folder / "image", folder / "data", 2 << 30, "btrfs")
    try:
        storage.make_image(plan)
        mount(plan)
    except FailedPreconditionError as error:
        shutil.rmtree(folder)
        pytest.skip(f"this machine has no btrfs with quotas: {error.message}")
    yield plan.data_dir
    subprocess.run(["umount", str(plan.data_dir)], check=True)
    shutil.rmtree(folder)


@pytest.fixture
def plain_disk() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="plat-plain-", dir="/tmp"))
    yield folder / "data"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def on_quota(quota_disk: Path) -> Tried:
    programs = {**ON_DISK, "in a new subvolume": holding.SUBVOLUME}
    return asyncio.run(try_all(quota_disk, programs, DISK_MB, "root"))


@pytest.fixture(scope="module")
def on_plain() -> Tried:
    with tempfile.TemporaryDirectory(prefix="plat-plain-", dir="/tmp") as folder:
        programs = {**ON_DISK, "many connections": holding.MANY_CONNECTIONS}
        return asyncio.run(try_all(Path(folder, "data"), programs, DISK_MB, "root"))


@pytest.fixture(scope="module")
def without_groups() -> Tried:
    def find_none() -> Hierarchies:
        return Hierarchies({}, None, frozenset())

    with (
        tempfile.TemporaryDirectory(prefix="plat-groups-", dir=FAST_DISK) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(helped, "USER_ID", None)  # the others reach this process only
        patch.setattr(cgroups, "find_hierarchies", find_none)
        patch.setattr(tiers, "find_hierarchies", find_none)
        return asyncio.run(try_all(Path(folder, "data"), holding.MEMORY, 10240, "user"))


async def hold(engine: Engine, sandbox_id: str, body: str, user: str = "user") -> str:
    """Run a program that holds something; what it said before it ended."""
    code = holding.program(body, PATIENCE)
    sandbox = await engine.sandboxes.live(sandbox_id)
    request = bash(f"exec python3 -c {_quote(code)}")
    process = await sandbox.processes.start(request, user=user, timeout=PATIENCE + 60)
    heard = await listen(process.subscribe())
    return (heard.stdout + heard.stderr).decode()


def _reasons(engine: Engine, sandbox_id: str) -> list[str]:
    return [text for text in messages(engine, sandbox_id) if "killed" in text]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.parametrize("name", ON_DISK)
def test_a_quota_refuses_what_no_look_finds(on_quota: Tried, name: str) -> None:
    assert on_quota.words["disk"] == on_quota.words["volumes"] == limits.Word.LIMITED
    assert "Disk quota exceeded" in on_quota.said[name]
    assert "held" not in on_quota.said[name]
    assert not any("more than its disk" in text for text in on_quota.logged[name])


def test_nothing_new_without_a_quota_can_be_made_in_a_volume(on_quota: Tried) -> None:
    assert "Operation not permitted" in on_quota.said["in a new subvolume"]


@pytest.mark.parametrize("name", ON_DISK)
def test_a_plain_disk_is_watched_for_what_has_no_name(on_plain: Tried, name: str) -> None:
    assert on_plain.words["disk"] == on_plain.words["volumes"] == limits.Word.WATCHED
    assert "everything" not in on_plain.said[name]
    assert any("more than its disk" in text for text in on_plain.logged[name])


def test_the_memory_of_tcp_is_watched_where_control_groups_count_it_apart(
    on_plain: Tried,
) -> None:
    assert "everything" not in on_plain.said["many connections"]
    if on_plain.words["memory"] == limits.Word.LIMITED:
        assert on_plain.words["tcp_memory"] in (limits.Word.WATCHED, limits.Word.LIMITED)
    assert any("out of memory" in text for text in on_plain.logged["many connections"])


@pytest.mark.parametrize("name", holding.MEMORY)
def test_memory_is_watched_where_no_control_group_holds_it(
    without_groups: Tried, name: str
) -> None:
    for resource in ("memory", "shared_memory", "tcp_memory"):
        assert without_groups.words[resource] == limits.Word.WATCHED
    assert "everything" not in without_groups.said[name]
    assert any("out of memory" in text for text in without_groups.logged[name])


async def test_a_sandbox_at_its_quota_tells_its_use_and_can_be_emptied(quota_disk: Path) -> None:
    async with running(quota_disk) as engine:
        row = await create(engine)
        full = "head -c 200M /dev/zero > ~/big; echo $?"
        assert (await run(engine, row.sandbox_id, full)).startswith("1")

        sandbox = await engine.sandboxes.live(row.sandbox_id)
        reading = await sandbox.read_metrics()
        assert reading.disk_total == DISK_MB * MIB
        assert reading.disk_used > (DISK_MB - 2) * MIB

        await run(engine, row.sandbox_id, "rm ~/big")
        again = "head -c 20M /dev/zero > ~/next; echo $?"
        assert await run(engine, row.sandbox_id, again) == "0"

        (fork,) = await engine.forks.create(row.sandbox_id, timeout=100)
        assert not isinstance(fork, Exception)
        quotas = [subvolumes.read_quota(path) for path in (quota_disk / "sandboxes").iterdir()]
        assert [quota.limit for quota in quotas if quota] == [DISK_MB * MIB] * 2


async def test_metrics_show_what_has_no_name(plain_disk: Path) -> None:
    async with running(plain_disk) as engine:
        row = await create(engine)
        code = holding.program("map_a_page(without_name(f'{home}/gone', 40))\nstay()", 600)
        sandbox = await engine.sandboxes.live(row.sandbox_id)
        request = bash(f"exec python3 -c {_quote(code)}")
        await sandbox.processes.start(request, user=None, timeout=None)

        async def is_counted() -> bool:
            return (await sandbox.read_metrics()).disk_used > 40 * MIB

        await async_until(is_counted)
