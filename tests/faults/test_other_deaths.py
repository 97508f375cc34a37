"""The zygote or an agent is killed while the engine stands at a step; the engine carries on."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.faults.scenarios import SCENARIOS, Ids
from tests.faults.witnesses import Witnesses
from tests.faults.world import World, end_process
from tests.waiting import until

ZYGOTE_CASES = [
    ("create", "create.prepared"),
    ("create", "create.caged"),
    ("create", "create.begun"),
    ("kill", "kill.stored"),
    ("pause on disk", "pause.marked"),
    ("resume with memory", "resume.thawed"),
    ("resume from disk", "create.prepared"),
    ("snapshot", "snapshot.frozen"),
    ("snapshot", "snapshot.copied"),
    ("fork", "fork.copied"),
    ("flattening", "flatten.copied"),
    ("network", "network.stored"),
]
AGENT_CASES = [
    ("kill", "kill.decided"),
    ("pause with memory", "pause.frozen"),
    ("pause with memory", "pause.stored"),
    ("pause on disk", "pause.marked"),
    ("resume with memory", "resume.thawed"),
    ("resume with memory", "resume.stored"),
    ("connect to a running one", "connect.found"),
    ("timeout", "timeout.stored"),
    ("snapshot", "snapshot.frozen"),
    ("snapshot", "snapshot.copied"),
    ("fork", "fork.copied"),
    ("network", "network.stored"),
]


@pytest.mark.parametrize(("name", "point"), ZYGOTE_CASES)
def test_an_operation_succeeds_although_the_zygote_dies(
    world: World, witnesses: Witnesses, name: str, point: str
):
    scenario = SCENARIOS[name]
    ids = scenario.prepare(world)

    act_while_standing(world, name, point, ids, lambda: end_process(world.zygote()))

    check = check_connect_from_disk if name == "resume from disk" else scenario.check
    check(world, ids, scenario.points[-1])


def check_connect_from_disk(world: World, ids: Ids, point: str) -> None:
    detail = world.get(ids["sandbox"])
    assert detail is not None
    assert detail["state"] == "running"
    assert world.run(ids["sandbox"], "cat ~/file") == "kept"


@pytest.mark.parametrize(("name", "point"), AGENT_CASES)
def test_a_sandbox_whose_agent_dies_is_gone_or_on_disk(
    world: World, witnesses: Witnesses, name: str, point: str
):
    ids = SCENARIOS[name].prepare(world)

    agent = world.first_process(ids["sandbox"])
    act_while_standing(world, name, point, ids, lambda: end_process(agent))
    world.assert_no_leak()

    def is_settled() -> bool:
        detail = world.get(ids["sandbox"])
        return detail is None or detail.get("pauseMode") == "filesystem"

    until(is_settled)
    detail = world.get(ids["sandbox"])
    if detail is not None:
        world.ask("POST", f"/v2/sandboxes/{ids['sandbox']}/connect", {"timeout": 600})
        assert world.run(ids["sandbox"], "cat ~/file") == "kept"


def act_while_standing(
    world: World, name: str, point: str, ids: Ids, kill: Callable[[], None]
) -> None:
    world.arm(point, "pause")
    acting = threading.Thread(target=SCENARIOS[name].act, args=(world, ids))
    acting.start()
    try:
        world.wait_standing()
        kill()
    finally:
        world.disarm()
        acting.join()
