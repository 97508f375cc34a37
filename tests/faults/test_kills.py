"""Helpers of the engine are killed at random moments under load: nothing leaks, nothing hangs."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from sbx_jupyter.isolation.ids.holder import NAME as HOLDER
from tests.faults.conftest import engine_of_user, made_world
from tests.faults.witnesses import Witnesses
from tests.faults.world import (
    SLIRP,
    LandlockWorld,
    World,
    children_of,
    descendants,
    end_process,
    name_of,
    parent_of,
)
from tests.isolation.privileged.conftest import helper_of
from tests.waiting import Busyness, until, until_equal

ROUNDS = int(os.environ.get("SBX_KILL_ROUNDS", "15"))
"""Kills of each engine."""
SEED = int(os.environ.get("SBX_KILL_SEED", "1"))
LONGEST = 5.0
"""Seconds that a call may take, besides what the machine's other work costs."""

EXPECTED = {200, 201, 204, 404, 409, 502, 503}
"""A sandbox whose first process was killed is paused on disk, or its creation failed."""

KEPT_CONNECTIONS = 8
"""Descriptors that the engine may have for the connections of its clients."""

ENGINES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "namespaces": ((), {}),
    "none": (("--isolation=none",), {"tier": "none"}),
    "full": (("--network=full",), {"has_slirp": True}),
    "separate": (("--SbxEngine.user_id=-1",), {}),
    "landlock": (
        ("--isolation=landlock",),
        {"tier": "landlock", "make": LandlockWorld, "start": engine_of_user},
    ),
}
"""For each kind of engine: its options, and what is expected of it."""
CHOSEN_KINDS = os.environ.get("SBX_KILL_KINDS", "").split(",")
"""The kinds of helpers to kill; all where none is named."""
CHOSEN = os.environ.get("SBX_KILL_ENGINES", "namespaces").split()


@pytest.fixture(scope="module", params=CHOSEN)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "full" and shutil.which(SLIRP) is None:
        pytest.skip("the full network needs slirp4netns")
    if request.param == "separate" and os.geteuid() != 0:
        pytest.skip("only root has privileges to give up")
    options, expected = ENGINES[request.param]
    with made_world(*options, **expected) as made:
        yield made


@dataclass
class Load:
    """Clients that make, snapshot, fork, pause and kill sandboxes until they are told to stop."""

    world: World
    is_over: threading.Event = field(default_factory=threading.Event)
    slowest: tuple[float, str] = (0.0, "")
    calls: int = 0
    successes: int = 0
    failures: list[str] = field(default_factory=list)

    def run(self) -> None:
        while not self.is_over.is_set():
            sandbox = self.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 600})
            if sandbox is None:
                continue
            path = f"/sandboxes/{sandbox['sandboxID']}"
            self.ask("POST", f"{path}/snapshots", {})
            forks = self.ask("POST", f"{path}/fork", {"count": 1, "timeout": 600})
            self.ask("GET", "/engine/disk?maxAge=0")
            self.ask("POST", f"{path}/pause", {"memory": False})
            self.ask("POST", f"/v2{path}/connect", {"timeout": 600})
            self.ask("DELETE", path)
            for fork in forks or []:
                if found := fork.get("sandbox"):
                    self.ask("DELETE", f"/sandboxes/{found['sandboxID']}")

    def ask(self, method: str, path: str, body: object = None):
        began = time.monotonic()
        answer = self.world.ask(method, path, body)
        took = time.monotonic() - began
        self.slowest = max(self.slowest, (took, f"{method} {path}: {answer.status_code}"))
        self.calls += 1
        self.successes += answer.status_code < 300
        if answer.status_code not in EXPECTED:
            self.failures.append(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.status_code in (200, 201) else None


@pytest.mark.timeout(120 + 2 * ROUNDS)
def test_no_kill_of_a_helper_leaks_or_hangs(world: World, witnesses: Witnesses):
    chance = random.Random(SEED)
    busy = Busyness()
    load = Load(world)
    descriptors = len(os.listdir(f"/proc/{world.engine.pid}/fd"))
    threads = [threading.Thread(target=load.run, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    kills: Counter[str] = Counter()
    while kills.total() < ROUNDS:
        before = load.successes
        time.sleep(chance.uniform(0.0, 0.8))  # the moment is what is random here
        kills.update(kill_one(world, witnesses, chance))
        # However slow the machine is, the engine is to come through between two kills.
        until(lambda: load.successes > before, timeout=60)  # noqa: B023 - it is read at once
    load.is_over.set()
    for thread in threads:
        thread.join(60)

    said = ", ".join(f"{count} of {what}" for what, count in sorted(kills.items()))
    slowest = "{:.2f} s for {}".format(*load.slowest)
    print(f"{ROUNDS} kills ({said}), {load.calls} calls, the slowest took {slowest}")
    assert not any(thread.is_alive() for thread in threads)
    assert load.failures == [], log_of(world)
    assert load.slowest[0] < LONGEST * busy.most(), load.slowest
    log = world.engine.log.read_text()
    assert "Traceback" not in log, log
    remove_snapshots(world, witnesses)
    until(
        lambda: len(os.listdir(f"/proc/{world.engine.pid}/fd")) <= descriptors + KEPT_CONNECTIONS,
        message="descriptors of the engine are left",
    )


def kill_one(world: World, witnesses: Witnesses, chance: random.Random) -> list[str]:
    """Kill one helper; returns what it was, or nothing when it was gone already."""
    with contextlib.suppress(AssertionError, OSError, ValueError, IndexError):
        what, found = chance.choice(sorted(helpers(world, witnesses).items()))
        os.kill(chance.choice(found), signal.SIGKILL)
        return [what]
    return []


def helpers(world: World, witnesses: Witnesses) -> dict[str, list[int]]:
    """The processes that help the engine, by their kinds; of sandboxes only those of the load."""
    zygote = world.zygote()
    caged = world.processes()[0]
    spared = {pid for name in witnesses.sandbox_ids for pid in caged.get(name, ())}
    every = list(descendants(os.getpid()))
    children = [pid for pid in children_of(zygote) if pid not in spared]
    found = {
        "zygotes": [zygote],
        "newest children": [max(children, default=zygote)],
        "holders of ids": [pid for pid in every if name_of(pid) == HOLDER],
        "networks": [pid for pid in every if name_of(pid) == SLIRP],
    }
    if world.engine.is_separate:  # not what starts it, whose end is the engine's
        with contextlib.suppress(ProcessLookupError):  # the next one is not there yet
            found["privileged helpers"] = [helper_of(world.engine.data_dir)]
    if isinstance(world, LandlockWorld):
        found |= kept_apart(world, spared)
    if world.tier == "none":  # keepers, their guardians and agents
        mine = [pid for pids in caged.values() for pid in pids if pid not in spared]
        found["processes of sandboxes"] = mine
    wanted = found if CHOSEN_KINDS == [""] else CHOSEN_KINDS
    return {what: pids for what, pids in found.items() if pids and what in wanted}


def kept_apart(world: LandlockWorld, spared: set[int]) -> dict[str, list[int]]:
    """The processes of sandboxes without namespaces of their own."""
    keepers = [pid for pid in world.keepers().values() if pid not in spared]
    guardians = [parent_of(pid) for pid in keepers]
    return {
        "keepers": keepers,
        "guardians": [pid for pid in guardians if pid not in (None, os.getpid(), world.zygote())],
        "agents": [pid for keeper in keepers for pid in children_of(keeper)],
    }


def log_of(world: World) -> str:
    """What the engine wrote to its output, and the errors in its log."""
    logged = world.engine.data_dir.rglob("engine.jsonl*")
    lines = [line for path in logged for line in path.read_text().splitlines()]
    errors = [line for line in lines if "Traceback" in line]
    return "\n".join([world.engine.log.read_text(), *errors[-3:]])


def end_supervisor(world: World) -> None:
    """Kill what would start the next helper."""
    supervisor = parent_of(helper_of(world.engine.data_dir))
    assert supervisor is not None
    end_process(supervisor)


@pytest.mark.timeout(120 + 10 * ROUNDS)
def test_an_engine_goes_on_without_a_supervisor_and_ends_well_without_a_helper(
    world: World, witnesses: Witnesses
):
    if not world.engine.is_separate:
        pytest.skip("only an engine with a helper has a supervisor")
    chance = random.Random(SEED)
    busy = Busyness()
    slowest = (0.0, "")
    for number in range(max(1, ROUNDS // 10)):
        load = Load(world)
        threads = [threading.Thread(target=load.run, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(chance.uniform(0.0, 1.0))  # the moment is what is random here
        end_supervisor(world)
        before = load.successes
        until(lambda: load.successes > before + 3, timeout=60)  # noqa: B023 - it is read at once
        helper = helper_of(world.engine.data_dir)
        if number % 2:
            end_process(helper)
        load.is_over.set()
        for thread in threads:
            thread.join(60)
        slowest = max(slowest, load.slowest)
        assert not any(thread.is_alive() for thread in threads)
        assert load.failures == [], log_of(world)
        if number % 2:
            answer = world.ask("POST", "/v2/sandboxes", {"templateID": "base"})
            assert (answer.status_code, "restart the engine" in answer.text) == (503, True)
        world.client.close()
        world.engine.stop(signal.SIGHUP)
        world.start()
        witnesses.assert_unharmed()
        world.kill_all(keep=witnesses.sandbox_ids)
        remove_snapshots(world, witnesses)
        world.assert_no_leak()
    print("the slowest call took {:.2f} s for {}".format(*slowest))
    assert slowest[0] < LONGEST * busy.most(), slowest


def remove_snapshots(world: World, witnesses: Witnesses) -> None:
    """Remove the snapshots that the load made."""
    while left := [
        item["snapshotID"]
        for item in world.ask("GET", "/snapshots?limit=100").json()
        if item["snapshotID"] != witnesses.snapshot
    ]:
        for name in left:
            template = name.partition(":")[0]
            until_equal(partial(remove_template, world, template), True)


def remove_template(world: World, template_id: str) -> bool:
    """Remove a template that no sandbox uses any more; false while one does."""
    return world.ask("DELETE", f"/templates/{template_id}").status_code != 400
