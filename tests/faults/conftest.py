"""One world for all steps: what survives one crash has to survive all that follow."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine_process import CHECKOUT, EngineProcess
from tests.faults.witnesses import Witnesses
from tests.faults.world import World, adopt_orphans, reap

TIMEOUT = 300
"""Seconds. These tests start engines again and again, which takes long where others use the
processors, and what one of them leaves half done fails all that follow."""


_PYTHON = "/usr/bin/python3"
_UID = 1483


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


class _UserEngine(EngineProcess):
    """An engine of an ordinary user, who has no privileges to share out."""

    @property
    def is_separate(self) -> bool:
        return False


def engine_of_user(data_dir: Path, *options: str, **settings: Any) -> EngineProcess:
    """An engine of an ordinary user with the system's Python; skips where there is none."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv, to become another user")
    if Path(_PYTHON).resolve().name != f"python{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip("needs the system's Python, which every user may execute")
    os.chown(data_dir, _UID, _UID)
    environment = {
        **settings.pop("environment"),
        "HOME": str(data_dir),
        "PYTHONPATH": f"{CHECKOUT}:{sysconfig.get_path('purelib')}",
    }
    become = ("setpriv", f"--reuid={_UID}", f"--regid={_UID}", "--clear-groups")
    return _UserEngine(
        data_dir, options=options, environment=environment, prefix=become, python=_PYTHON
    )


@contextlib.contextmanager
def made_world(
    *options: str,
    make: Callable[..., World] = World,
    start: Callable[..., EngineProcess] | None = None,
    **expected: Any,
) -> Generator[World]:
    """An engine with ``options``; ``expected`` are fields of ``World``.

    ``make`` makes the world of an engine, and ``start`` the engine where that is not root's.
    """
    folder = Path(tempfile.mkdtemp(prefix="sbx-faults-", dir=fast_disk()))
    folder.chmod(0o755)
    (folder / "faults").mkdir()
    (folder / "faults").chmod(0o777)  # an engine with a user of its own writes there too
    (folder / "data").mkdir()
    environment = {"SBX_FAULT": str(folder / "faults")}
    options = ("--pool-size", "0", *options)
    if start is None:
        engine = EngineProcess(folder / "data", options=options, environment=environment)
    else:
        engine = start(folder / "data", *options, environment=environment)
    adopt_orphans(True)
    is_over = threading.Event()
    reaper = threading.Thread(target=_reap_forever, args=(engine, is_over), daemon=True)
    reaper.start()
    world = make(engine, folder / "faults", **expected)
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
