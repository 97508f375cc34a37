"""One world for all steps: what survives one crash has to survive all that follow."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine_process import EngineProcess
from tests.faults.witnesses import Witnesses
from tests.faults.world import World, adopt_orphans, reap

TIMEOUT = 300
"""Seconds. These tests start engines again and again, which takes long where others use the
processors, and what one of them leaves half done fails all that follow."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give these tests more time than others have."""
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT))


def fast_disk() -> str:
    """Memory, where its files can have the attributes that an overlay needs (Linux 6.6)."""
    try:
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            os.setxattr(file.name, "user.sbx", b"")
    except OSError:
        return "/tmp"
    return "/dev/shm"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with made_world() as made:
        yield made


@contextlib.contextmanager
def made_world(*options: str, **expected: Any) -> Generator[World]:
    """An engine with ``options``; ``expected`` are fields of ``World``."""
    folder = Path(tempfile.mkdtemp(prefix="sbx-faults-", dir=fast_disk()))
    folder.chmod(0o755)
    (folder / "faults").mkdir()
    (folder / "faults").chmod(0o777)  # an engine with a user of its own writes there too
    (folder / "data").mkdir()
    engine = EngineProcess(
        folder / "data",
        options=("--pool-size", "0", *options),
        environment={"SBX_FAULT": str(folder / "faults")},
    )
    adopt_orphans(True)
    is_over = threading.Event()
    reaper = threading.Thread(target=_reap_forever, args=(engine, is_over), daemon=True)
    reaper.start()
    world = World(engine, folder / "faults", **expected)
    try:
        world.start()
        yield world
    finally:
        world.disarm()
        try:
            _end(world)
        finally:
            is_over.set()
            reaper.join()
            adopt_orphans(False)
            shutil.rmtree(folder)


@pytest.fixture
def witnesses(world: World) -> Iterator[Witnesses]:
    """What stood by during a crash; it is looked at before and after."""
    found = Witnesses.of(world)
    yield found
    if not found.may_be_ended:
        found.assert_unharmed()
    world.kill_all(keep=found.sandbox_ids)
    world.assert_no_leak()


def _end(world: World) -> None:
    if world.engine.process is None or world.engine.process.poll() is not None:
        world.engine.start()
        world._connect()
    world.kill_all(keep=set())
    world.client.close()
    world.engine.stop()


def _reap_forever(engine: EngineProcess, is_over: threading.Event) -> None:
    while not is_over.wait(0.02):
        reap(engine)
