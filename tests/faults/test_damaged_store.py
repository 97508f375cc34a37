"""The store of a killed engine is damaged: the next refuses, and ``recover`` brings all back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine_process import CHECKOUT
from tests.faults.witnesses import Witnesses
from tests.faults.world import World


def change_one_bit(folder: Path) -> None:
    """In the log of SQLite where there is one, else in the file."""
    log = folder / "engine.db-wal"
    path = log if log.exists() and log.stat().st_size > 4096 else folder / "engine.db"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def lose_the_store(folder: Path) -> None:
    for path in folder.glob("engine.db*"):
        path.unlink()


def lose_everything(folder: Path) -> None:
    lose_the_store(folder)
    (folder / "engine.seq").unlink()


@pytest.mark.parametrize("damage", [change_one_bit, lose_the_store, lose_everything])
def test_a_damaged_store_costs_nothing(
    world: World, witnesses: Witnesses, damage: Callable[[Path], None]
):
    """Running sandboxes go on, tokens stay, and paused ones, snapshots and volumes are there."""
    folder = world.engine.data_dir
    world.ask("PUT", f"/sandboxes/{witnesses.running}/metadata", {"metadata": {"a": "b"}})
    world.engine.kill()
    world.client.close()
    damage(folder)

    refusal = start_and_fail(world)
    assert refusal.count("\n") == 1
    assert "jupyter sbx recover" in refusal
    said = run_recover(folder)

    assert "3 sandboxes" in said
    world.start()
    witnesses.assert_unharmed()
    listed = world.ask("GET", "/engine/disk?maxAge=0").json()["quarantine"]
    assert [each["kind"] for each in listed] == ["store"]
    answer = world.ask("POST", "/engine/prune", {"kinds": ["quarantine"]})
    assert answer.json()["pruned"][0]["count"] == 1


def start_and_fail(world: World) -> str:
    world.engine.launch()
    process = world.engine.process
    assert process is not None
    before = world.engine.log.stat().st_size
    assert process.wait(60) == 1
    return world.engine.log.read_text()[before:]


def run_recover(folder: Path) -> str:
    command = [sys.executable, "-P", "-m", "sbx_jupyter.cli.main", "recover"]
    done = subprocess.run(
        [*command, "--data-dir", folder],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(CHECKOUT)},
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
