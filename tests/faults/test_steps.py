"""The engine is killed at every named step; the next one has to make the best of it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import sbx_jupyter.engine.watch.checkpoints as checkpoints
from tests.faults.scenarios import SCENARIOS
from tests.faults.witnesses import Witnesses
from tests.faults.world import World

CASES = [(name, point) for name, scenario in SCENARIOS.items() for point in scenario.points]


def test_the_table_and_the_code_name_the_same_steps():
    folder = Path(checkpoints.__file__).parent.parent
    named = {
        point
        for path in folder.rglob("*.py")
        for point in re.findall(r'reached\(\s*"([a-z.]+)"', path.read_text())
    }

    assert named == set(checkpoints.POINTS)


def test_every_step_is_the_last_of_some_engine():
    """Each case below fails unless its step is reached."""
    assert {point for _, point in CASES} == set(checkpoints.POINTS)
    assert len(CASES) >= 40


@pytest.mark.parametrize(("name", "point"), CASES)
def test_a_crash_loses_nothing_and_leaves_nothing(
    world: World, witnesses: Witnesses, name: str, point: str
):
    scenario = SCENARIOS[name]
    ids = scenario.prepare(world)
    witnesses.may_be_ended = name == "stop"

    world.arm(point)
    scenario.act(world, ids)
    assert world.wait_death() == -signal.SIGKILL
    world.start()

    scenario.check(world, ids, point)
