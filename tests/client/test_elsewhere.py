"""Off Linux the client, the extension and the magics work with other deployments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine_process import CHECKOUT, EngineProcess, engine_process

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]  # the program imports most of Jupyter
PROGRAM = Path(__file__).with_name("elsewhere.py")


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    """The deployment elsewhere."""
    with engine_process("elsewhere") as running:
        yield running


@pytest.fixture(params=["darwin", "win32"], scope="module")
def found(
    request: pytest.FixtureRequest, engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the program saw on a system that lacks what that system lacks."""
    home = tmp_path_factory.mktemp(request.param)
    arguments = [request.param, str(CHECKOUT), str(home / "data"), engine.url, engine.key]
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "IPYTHONDIR": str(home / "ipython")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_all_that_people_use_loads(found: dict[str, Any]) -> None:
    assert found["failed"] == {}
    assert found["magics"] == "['cell', 'line']"


def test_new_says_that_a_local_engine_needs_linux(found: dict[str, Any]) -> None:
    assert found["new"].startswith("a local engine needs Linux: use WSL2")
    assert found["described"]["state"] == "unreachable"
    assert found["described"]["message"] == found["new"]


def test_kernels_get_no_address_of_an_engine_that_cannot_run(found: dict[str, Any]) -> None:
    assert found["environment"] == []


@pytest.mark.parametrize("command", ["engine", "doctor"])
def test_the_command_line_says_so_in_one_line(found: dict[str, Any], command: str) -> None:
    code, errors = found[command]

    assert code == 1
    assert errors == f"jupyter sbx {command}: {found['new']}\n"


def test_another_deployment_works(found: dict[str, Any]) -> None:
    assert found["remote"] == ["written elsewhere"]
