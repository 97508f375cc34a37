"""Helpers of the engine are killed at random moments under load: nothing leaks, nothing hangs."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.faults.witnesses import Witnesses
from tests.faults.world import World, children_of
from tests.isolation.privileged.conftest import helper_of
from tests.waiting import until_equal

ROUNDS = int(os.environ.get("SBX_KILL_ROUNDS", "20"))
SEED = int(os.environ.get("SBX_KILL_SEED", "1"))
LONGEST = 5.0
"""Seconds that a call may take, besides what the machine's other work costs."""

EXPECTED = {200, 201, 204, 404, 409, 502, 503}
"""A sandbox whose first process was killed is paused on disk, or its creation failed."""


@dataclass
class Load:
    """Clients that make, snapshot, fork, pause and kill sandboxes until they are told to stop."""

    world: World
    is_over: threading.Event = field(default_factory=threading.Event)
    slowest: float = 0.0
    calls: int = 0
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
        self.slowest = max(self.slowest, time.monotonic() - began)
        self.calls += 1
        if answer.status_code not in EXPECTED:
            self.failures.append(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.status_code in (200, 201) else None


@pytest.mark.timeout(120 + 2 * ROUNDS)
def test_no_kill_of_a_helper_leaks_or_hangs(world: World, witnesses: Witnesses):
    chance = random.Random(SEED)
    load = Load(world)
    threads = [threading.Thread(target=load.run, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(ROUNDS):
        time.sleep(chance.uniform(0.0, 0.8))  # the moment is what is random here
        kill_one(world, witnesses, chance)
    load.is_over.set()
    for thread in threads:
        thread.join(60)

    print(f"{ROUNDS} kills, {load.calls} calls, the slowest took {load.slowest:.2f} s")
    assert not any(thread.is_alive() for thread in threads)
    assert load.failures == []
    assert load.slowest < LONGEST * busyness()
    log = world.engine.log.read_text()
    assert "Traceback" not in log, log
    remove_snapshots(world, witnesses)


def kill_one(world: World, witnesses: Witnesses, chance: random.Random) -> None:
    """Kill the zygote, one of its children, such as a sandbox that is being made, or the helper."""
    if world.engine.is_separate and chance.random() < 0.3:
        with contextlib.suppress(ProcessLookupError):  # the next one is not there yet
            os.kill(helper_of(world.engine.data_dir), signal.SIGKILL)
        return
    with contextlib.suppress(AssertionError, OSError, ValueError, IndexError):
        zygote = world.zygote()
        spared = {pid for pids in world.caged(witnesses.sandbox_ids).values() for pid in pids}
        children = [pid for pid in children_of(zygote) if pid not in spared]
        target = zygote if chance.random() < 0.5 or not children else max(children)
        os.kill(target, signal.SIGKILL)


def busyness() -> float:
    """How many programs want a processor at once, at least 1: other work on it costs time."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


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
