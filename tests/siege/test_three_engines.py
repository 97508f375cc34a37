"""Hostile sandboxes use up everything at once; their neighbours, in all engines, go on working.

Two engines of root and one of an ordinary user share the machine, with ten sandboxes each, one of
which is hostile. ``SBX_SIEGE_SECONDS`` says how long the attack lasts (60). The figures are printed
as JSON. What the engine only watches is printed and not judged: a share of the processors that no
control group gives.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sbx_jupyter.isolation.limits import Word
from tests.siege.besieged import PROCESSES, Besieged, Figures, Waits, engines

SECONDS = float(os.environ.get("SBX_SIEGE_SECONDS", "60"))
CALM = 20.0
MOST_TIMES_SLOWER = 5
LONGEST = 2.0

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        os.geteuid() != 0
        or shutil.which("setpriv") is None
        or not Path("/usr/bin/python3").exists(),
        reason="needs root, setpriv and a Python for every user",
    ),
]


async def test_neighbours_of_hostile_sandboxes_go_on() -> None:
    load, stolen = os.getloadavg()[0], _stolen_seconds()
    with engines() as found:
        async with contextlib.AsyncExitStack() as stack:
            for engine in found:
                await stack.enter_async_context(engine.open())
            # Nothing is tried where the kernel would not end it.
            for engine in found:
                assert engine.words["processes"] == Word.LIMITED, engine.limits
                assert 32 < await engine.count_forks() <= PROCESSES
            calm = await asyncio.gather(*(engine.use(CALM) for engine in found))
            waits = Waits([engine.attacker_pid for engine in found])
            for engine in found:
                engine.waits = waits
            attacks = [asyncio.create_task(engine.attack(SECONDS)) for engine in found]
            attacked = await asyncio.gather(*(engine.use(SECONDS) for engine in found))
            await asyncio.gather(*attacks, return_exceptions=True)
            lost = [await engine.lost_files() for engine in found]
            waited = waits.close()
            for engine in found:
                engine.waits = None
            alive = [(await engine.platform.engine_info()) is not None for engine in found]
    told = {
        engine.name: _described(engine, *figures)
        for engine, *figures in zip(found, calm, attacked, strict=True)
    }
    # What else there was: other programs before it began, and what the hypervisor took.
    print(f"The load was {load:.1f}; {_stolen_seconds() - stolen:.1f} s were stolen meanwhile.")
    print(json.dumps(told, indent=1))
    print("What was waited for while operations were slow:", waited or "nothing", sep="\n")

    assert all(alive)
    assert lost == [[], [], []]
    for engine, before, meanwhile in zip(found, calm, attacked, strict=True):
        assert not before.failed, (engine.name, before.failed)
        assert not meanwhile.failed, (engine.name, meanwhile.failed)
        if engine.words["cpu_shares"] == Word.LIMITED:
            assert before.slowest()[0] <= LONGEST, "the machine is too busy to judge anything"
            assert meanwhile.p99() <= MOST_TIMES_SLOWER * before.p99(), engine.name
            assert meanwhile.slowest()[0] <= LONGEST, engine.name


def _described(engine: Besieged, calm: Figures, attacked: Figures) -> dict[str, Any]:
    return {
        "limits": engine.limits,
        "processor_time": engine.words["cpu_shares"],
        "calm": calm.to_json(),
        "attacked": attacked.to_json(),
        "times_slower": round(attacked.p99() / calm.p99(), 1),
    }


def _stolen_seconds() -> float:
    """Processor time that this machine should have had and its host gave to others."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")
