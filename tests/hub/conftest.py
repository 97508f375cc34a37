"""A hub with each recipe of ``recipes/jupyterhub``."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.engine_process import EngineProcess, engine_process
from tests.hub.hub import USERS, Hub, end, processes_of, running_hub
from tests.hub.programs import install
from tests.waiting import until_equal

if TYPE_CHECKING:
    from collections.abc import Iterator

QUOTA = {"sandboxes": 2}


@dataclass
class Setup:
    """A hub with both users' servers, and the shared engine if there is one."""

    hub: Hub
    shared: EngineProcess | None


@pytest.fixture(scope="module", params=["engine_per_user", "shared_engine"])
def setup(request: pytest.FixtureRequest) -> Iterator[Setup]:
    if os.geteuid() != 0:
        pytest.skip("root alone can start servers of other users")
    assert not processes_of(set(USERS.values()))
    if request.param == "engine_per_user":
        with running_hub("engine_per_user") as hub:
            yield from both_started(Setup(hub, None))
        return
    install()
    with engine_process("hub", f"--SbxEngine.quota={QUOTA}") as engine:
        keys = engine.data_dir.with_suffix(".keys")
        environment = {
            "SBX_SHARED_URL": engine.url,
            "SBX_SHARED_DATA_DIR": str(engine.data_dir),
            "SBX_SHARED_KEYS": str(keys),
        }
        with running_hub("shared_engine", environment) as hub:
            yield from both_started(Setup(hub, engine))
        shutil.rmtree(keys)


def both_started(setup: Setup) -> Iterator[Setup]:
    """At the end, nothing of the users is left once the hub is."""
    for user in USERS:
        setup.hub.start(user)
    yield setup
    end(setup.hub)
    until_equal(
        lambda: processes_of(set(USERS.values())), {}, message="Processes of users are left"
    )
