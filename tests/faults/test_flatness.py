"""Sandboxes that come and go leave nothing with the engine or its zygote."""

from __future__ import annotations

from tests.benchmarks.cycles import census
from tests.faults.witnesses import Witnesses
from tests.faults.world import World

CYCLES = 60
MAY_GROW_KIB = 4096
MAY_VARY = 4
"""Worker threads and kept connections come and go; a leak would be one per cycle."""


def test_sixty_cycles_leave_nothing(world: World, witnesses: Witnesses):
    assert world.engine.process is not None
    engine = world.engine.process.pid
    cycles(world, 10)  # what is loaded or cached at first use is not a leak
    world.assert_no_leak()
    before = census(engine)

    cycles(world, CYCLES)

    world.assert_no_leak()
    after = census(engine)
    for what, value in before.items():
        if what.startswith("KiB"):
            assert after[what] - value < MAY_GROW_KIB, what
        elif what != "processes of this machine":
            assert after[what] <= value + MAY_VARY, what


def cycles(world: World, count: int) -> None:
    for _ in range(count):
        sandbox_id = world.create()
        assert world.run(sandbox_id, "echo used") == "used"
        assert world.ask("DELETE", f"/sandboxes/{sandbox_id}").status_code == 204
