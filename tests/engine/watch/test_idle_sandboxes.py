"""Sandboxes in which no process runs are left alone, and those in which one runs are not."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sbx_jupyter.engine.context import EngineConfig
from sbx_jupyter.engine.sandboxes.lifecycle import State
from sbx_jupyter.engine.state.history import REPEATED_AT_ONCE, History
from sbx_jupyter.engine.watch import sampling, watchdog
from sbx_jupyter.engine.watch.activity import LITTLE_TCP, Activity, ActivityReader
from sbx_jupyter.engine.watch.disk_limit import DiskEnforcer
from sbx_jupyter.engine.watch.limits import LONGEST_REST
from sbx_jupyter.engine.watch.memory import MemoryEnforcer
from sbx_jupyter.engine.watch.sampling import Sampler
from sbx_jupyter.engine.watch.watchdog import RepeatedCheck, Watchdog
from sbx_jupyter.isolation.resource_use.open_files import OpenFiles
from sbx_jupyter.protocol.runtime import Reading
from tests.engine.rows import sandbox_row
from tests.waiting import async_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbx_jupyter.engine.context import Context
    from sbx_jupyter.engine.sandboxes.placement import Placed
    from sbx_jupyter.engine.sandboxes.slots import Slot

MIB = 1 << 20


class Group:
    """The counters of a control group, and how often they were read."""

    def __init__(self) -> None:
        self.work: int | None = 0
        self.tcp = 0
        self.reads = 0

    def work_ns(self) -> int | None:
        self.reads += 1
        return self.work

    def tcp_bytes(self) -> int | None:
        return self.tcp


class Cage(Group):
    """A sandbox whose processor time is counted by a group as well."""

    holds_memory = True
    writable = Path("/")

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.together = ("group", group)

    def run(self) -> None:
        """Let a process run."""
        for each in (self, self.together[1]):
            each.work = (each.work or 0) + 1000

    def members(self) -> list[int]:
        return []

    def oom_kills(self) -> int:
        return 0


class Sandbox:
    """What the samplers and enforcers know of a sandbox."""

    def __init__(self, cage: Cage) -> None:
        self.sandbox_id = "iaaa"
        self.cage = cage
        self.files = SimpleNamespace(is_written=False, is_full=False, drafted_bytes=0)
        self.unnamed_disk_bytes = self.unseen_memory_bytes = 0
        self.readings = 0
        self.idle_notes = 0

    async def read_metrics(self) -> Reading:
        self.readings += 1
        return Reading(
            ts=int(time.time()),
            cpu_count=2,
            cpu_used_pct=50.0,
            mem_total_mib=512,
            mem_used_mib=self.readings,
            mem_total=512 * MIB,
            mem_used=self.readings * MIB,
            mem_cache=0,
            disk_used=1,
            disk_total=2,
        )

    def note_idle(self) -> None:
        self.idle_notes += 1


class World:
    """One running sandbox."""

    def __init__(self, directory: Path) -> None:
        self.group = Group()
        self.cage = Cage(self.group)
        self.cage.writable = directory
        self.sandbox = Sandbox(self.cage)
        placed = SimpleNamespace(cage=self.cage, sandbox=self.sandbox)
        row = sandbox_row()
        self._slot = SimpleNamespace(
            sandbox_id=row.sandbox_id, row=row, placed=placed, state=State.RUNNING, oom_kills=0
        )
        self.history = History(directory)
        self._context = SimpleNamespace(
            config=EngineConfig(directory),
            slots=[self._slot],
            history=self.history,
            hooks=SimpleNamespace(volume_directories=None),
        )
        self.measured = 0
        self._fence = SimpleNamespace(
            open_files=self._open_files, tree_operations=SimpleNamespace(measure=self._measure)
        )

    @property
    def slot(self) -> Slot:
        return cast("Slot", self._slot)

    @property
    def placed(self) -> Placed:
        return cast("Placed", self._slot.placed)

    @property
    def context(self) -> Context:
        return cast("Context", self._context)

    @property
    def fence(self) -> Any:
        return self._fence

    async def _open_files(self, _cage: object) -> OpenFiles:
        return OpenFiles(unnamed_bytes=0)

    async def _measure(self, _tree: Path) -> tuple[int, int]:
        self.measured += 1
        return MIB, 1


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# Readings of many


def test_while_the_group_stands_still_only_the_group_is_read() -> None:
    group, reader = Group(), ActivityReader()
    cages = [Cage(group) for _ in range(100)]
    before = reader.read(cages)

    after = reader.read(cages)

    assert after == before
    assert group.reads == 2
    assert [cage.reads for cage in cages] == [1] * 100


def test_what_ran_is_seen_at_once_and_so_is_a_new_sandbox() -> None:
    group, reader = Group(), ActivityReader()
    still, busy, new = Cage(group), Cage(group), Cage(group)
    before = reader.read([still, busy])

    busy.run()
    after = reader.read([still, busy])
    new.work = 7
    last = reader.read([still, new])

    assert after[busy].work_ns != before[busy].work_ns
    assert after[still] == before[still]
    assert last[new].work_ns == 7


def test_without_a_counter_of_the_group_each_is_read() -> None:
    group, reader = Group(), ActivityReader()
    group.work = None
    cage = Cage(group)
    reader.read([cage])
    cage.work = 5

    assert reader.read([cage])[cage].work_ns == 5


def test_what_cannot_be_read_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    cage = Cage(Group())

    def fail() -> int:
        raise FileNotFoundError("it has ended")

    monkeypatch.setattr(cage, "work_ns", fail)

    assert ActivityReader().read([cage])[cage].work_ns is None


def test_much_memory_of_tcp_is_looked_for_in_each() -> None:
    group = Group()
    small, large = Cage(group), Cage(group)
    large.tcp = group.tcp = LITTLE_TCP * 10

    found = ActivityReader().read([small, large])

    assert found[small].tcp_bytes == 0
    assert found[large].tcp_bytes == LITTLE_TCP * 10


def test_one_reading_tells_that_all_stand_still() -> None:
    group, reader = Group(), ActivityReader()
    cages = [Cage(group) for _ in range(100)]
    reader.read(cages)
    reads = group.reads

    assert reader.are_still()

    assert group.reads == reads + 1
    assert [cage.reads for cage in cages] == [1] * 100
    cages[3].run()
    assert not reader.are_still()
    reader.read(cages)
    assert reader.are_still()
    group.tcp = LITTLE_TCP + 1
    assert not reader.are_still()


def test_none_stands_still_where_nothing_is_counted() -> None:
    group, reader = Group(), ActivityReader()
    group.work = None
    reader.read([Cage(group)])

    assert not reader.are_still()


# Checks of limits


class Enforcer:
    """Counts the checks; says what the test wants it to."""

    def __init__(self) -> None:
        self.checks = 0
        self.is_soon = False
        self.seconds = LONGEST_REST
        self.most_tcp = MIB
        self.failure: Exception | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    async def check(self, placed: Placed) -> bool:
        self.checks += 1
        self.meanwhile()
        if self.failure is not None:
            raise self.failure
        return self.is_soon

    def rest(self, placed: Placed, work_ns: int | None) -> float:
        return 0.0 if work_ns is None else self.seconds

    def is_called_for(self, tcp_bytes: int) -> bool:
        return tcp_bytes > self.most_tcp


@pytest.fixture
def enforcer(monkeypatch: pytest.MonkeyPatch) -> Enforcer:
    monkeypatch.setattr(watchdog, "LONGEST_PAUSE", 0.01)
    return Enforcer()


@pytest.fixture
async def check(world: World, enforcer: Enforcer):
    check = RepeatedCheck(world.slot, enforcer, asyncio.Semaphore(1), lambda: None)
    yield check
    if (task := check.cancel()) is not None:
        await asyncio.gather(task, return_exceptions=True)


async def test_an_idle_sandbox_is_checked_once(
    world: World, enforcer: Enforcer, check: RepeatedCheck
) -> None:
    check.start()
    await async_until(lambda: check.is_resting)

    check.wake(world.placed, Activity(world.cage.work, 0))

    assert check.is_resting
    assert enforcer.checks == 1
    assert not check.has_failed()


async def test_a_process_that_ran_calls_for_a_check(
    world: World, enforcer: Enforcer, check: RepeatedCheck
) -> None:
    check.start()
    await async_until(lambda: check.is_resting)
    world.cage.run()

    check.wake(world.placed, Activity(world.cage.work, 0))

    await async_until(lambda: enforcer.checks == 2)


async def test_what_ran_during_a_check_calls_for_another(
    world: World, enforcer: Enforcer, check: RepeatedCheck
) -> None:
    check.start()
    await async_until(lambda: check.is_resting)
    enforcer.meanwhile = world.cage.run
    world.cage.run()
    check.wake(world.placed, Activity(world.cage.work, 0))
    await async_until(lambda: check.is_resting)
    assert enforcer.checks == 2

    check.wake(world.placed, Activity(world.cage.work, 0))

    assert not check.is_resting


@pytest.mark.parametrize("why", ["tcp", "time", "new processes"])
async def test_other_reasons_for_a_check(
    why: str, world: World, enforcer: Enforcer, check: RepeatedCheck
) -> None:
    enforcer.seconds = 1e-9 if why == "time" else LONGEST_REST
    check.start()
    await async_until(lambda: check.is_resting)
    placed = world.placed
    if why == "new processes":
        placed = cast("Placed", SimpleNamespace(cage=Cage(world.group), sandbox=None))

    check.wake(placed, Activity(world.cage.work, enforcer.most_tcp + 1 if why == "tcp" else 0))

    await async_until(lambda: enforcer.checks == 2)


@pytest.mark.parametrize("why", ["near the limit", "no counter", "an error"])
async def test_checks_go_on_where_they_must(
    why: str, world: World, enforcer: Enforcer, check: RepeatedCheck
) -> None:
    if why == "near the limit":
        enforcer.seconds = 0.0
    elif why == "no counter":
        world.cage.work = None
    else:
        enforcer.failure = OSError("it could not be measured")

    check.start()
    await async_until(lambda: enforcer.checks >= 4)

    assert not check.is_resting
    assert not check.has_failed()


async def test_a_check_that_broke_is_noticed(enforcer: Enforcer, check: RepeatedCheck) -> None:
    enforcer.failure = RuntimeError("a fault of ours")

    check.start()
    await async_until(check.has_failed)


async def test_a_layer_is_measured_again_when_a_process_ran(world: World) -> None:
    disk = DiskEnforcer(world.context, world.slot, world.fence)
    await disk.check(world.placed)
    assert world.measured == 1
    assert disk.rest(world.placed, world.cage.work) > 0

    world.cage.run()

    assert disk.rest(world.placed, world.cage.work) == 0


async def test_a_layer_that_is_written_from_outside_is_not_left_alone(world: World) -> None:
    disk = DiskEnforcer(world.context, world.slot, world.fence)
    world.sandbox.files.is_written = True
    await disk.check(world.placed)
    assert disk.rest(world.placed, world.cage.work) == 0

    world.sandbox.files.is_written = False

    # What was written after the measuring is not known yet.
    assert disk.rest(world.placed, world.cage.work) == 0


async def test_memory_of_tcp_is_watched_in_a_sandbox_that_does_nothing(world: World) -> None:
    memory = MemoryEnforcer(world.context, world.slot, world.fence)
    await memory.check(world.placed)
    assert memory.rest(world.placed, world.cage.work) == LONGEST_REST

    world.cage.tcp = 512 * MIB // 16

    assert memory.is_called_for(world.cage.tcp)
    await memory.check(world.placed)
    assert memory.rest(world.placed, world.cage.work) == 0


async def test_memory_that_no_group_holds_is_always_watched(world: World) -> None:
    memory = MemoryEnforcer(world.context, world.slot, world.fence)
    world.cage.holds_memory = False

    assert memory.rest(world.placed, world.cage.work) == 0


# Readings over time


@pytest.fixture
def sampler(world: World) -> Sampler:
    return Sampler(world.context, cast("Any", SimpleNamespace(counts={})))


async def test_the_reading_of_an_idle_sandbox_is_repeated(world: World, sampler: Sampler) -> None:
    for _ in range(3):
        await sampler.sample()

    found = world.history.between("iaaa")
    assert world.sandbox.readings == 1
    assert world.sandbox.idle_notes == 2
    assert [(each.cpu_used_pct, each.mem_used) for each in found] == [
        (50.0, MIB),
        (0.0, MIB),
        (0.0, MIB),
    ]
    assert found[0].timestamp <= found[1].timestamp <= found[2].timestamp


@pytest.mark.parametrize("why", ["a process ran", "it is written", "it is old", "no counter"])
async def test_a_reading_is_taken_again(
    why: str, world: World, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "it is old":
        monkeypatch.setattr(sampling, "_IDLE_INTERVAL", 0)
    if why == "no counter":
        world.cage.work = world.group.work = None
    await sampler.sample()
    world.sandbox.files.is_written = why == "it is written"
    if why == "a process ran":
        world.cage.run()

    await sampler.sample()

    assert world.sandbox.readings == 2
    latest = world.history.latest("iaaa")
    assert latest is not None
    assert latest.mem_used == 2 * MIB


async def test_repeated_readings_are_written_together_and_all_at_the_end(
    world: World, sampler: Sampler
) -> None:
    await sampler.sample()
    assert [len(work[0]) for work in world.history.take_unwritten().values() if work] == [64]
    for _ in range(REPEATED_AT_ONCE - 1):
        await sampler.sample()
    assert world.history.take_unwritten() == {}
    await sampler.sample()
    written = [len(work[0]) for work in world.history.take_unwritten().values() if work]
    assert written == [REPEATED_AT_ONCE * 64]
    await sampler.sample()

    last = world.history.take_unwritten(every=True)

    assert [len(work[0]) for work in last.values() if work] == [64]
    assert world.history.take_unwritten(every=True) == {}


# All together


@pytest.fixture
async def dog(world: World, monkeypatch: pytest.MonkeyPatch):
    """A watchdog all of whose checks rest."""
    monkeypatch.setattr(watchdog, "LONGEST_PAUSE", 0.01)
    dog = Watchdog(world.context, world.fence)
    dog.start()
    await async_until(lambda: world.measured == 1 and _is_asleep(dog))
    yield dog
    await dog.stop()


def _is_asleep(dog: Watchdog) -> bool:
    checks = [check for _, both in dog._watched.values() for check in both]
    return all(check.is_resting for check in checks) and not dog._has_new_rest


async def test_while_nothing_runs_no_sandbox_is_looked_at(
    world: World, dog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    monkeypatch.setattr(dog._activity, "read", looks.append)
    reads = world.group.reads

    await async_until(lambda: world.group.reads >= reads + 10)

    assert looks == []
    assert world.measured == 1


@pytest.mark.long
async def test_what_runs_after_a_long_sleep_is_noticed(world: World, dog: Watchdog) -> None:
    reads = world.group.reads
    await async_until(lambda: world.group.reads >= reads + 5)

    world.cage.run()

    await async_until(lambda: world.measured == 2 and _is_asleep(dog))


@pytest.mark.long
async def test_a_rest_ends_although_nothing_runs(
    world: World, dog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now() -> float:
        return monotonic() + LONGEST_REST

    monotonic = time.monotonic
    monkeypatch.setattr(time, "monotonic", now)

    await async_until(lambda: world.measured == 2)
