"""The notebooks in a simulated Binder: an ordinary user, and a kernel that makes no namespaces."""

from __future__ import annotations

import os
import sysconfig
from typing import TYPE_CHECKING

import pytest

from tests.demo.notebooks import check, executed, text_of
from tests.engine_process import CHECKOUT, EngineProcess, engine_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="root alone can forbid user namespaces"),
    pytest.mark.timeout(180),
]

UID = 64_990
FORBID_NAMESPACES = (
    *("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"),
    *("unshare", "--map-current-user", "--keep-caps", "sh", "-ec"),
    "echo 0 > /proc/sys/user/max_user_namespaces\n"
    'exec setpriv --ambient-caps=-all --inh-caps=-all --no-new-privs "$@"',
    "sh",
)
NOTEBOOKS = ("untrusted-code", "agent-loop", "teaching")
"""Those that need no port of a sandbox; e2b-unmodified greets by the name of a user."""


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    paths = f"{CHECKOUT}:{sysconfig.get_path('purelib')}"
    with engine_process(
        "binder",
        environment={"HOME": "/tmp", "PYTHONPATH": paths},
        prefix=FORBID_NAMESPACES,
        python="/usr/bin/python3",
        uid=UID,
    ) as running:
        yield running


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_does_what_it_says(engine: EngineProcess, name: str, tmp_path: Path) -> None:
    check(name, executed(name, engine, tmp_path))


@pytest.mark.parametrize("name", ["demo", "e2b-unmodified"])
def test_a_notebook_runs_to_its_end(engine: EngineProcess, name: str, tmp_path: Path) -> None:
    cells = executed(name, engine, tmp_path)

    assert all(output.get("name") != "stderr" for cell in cells.values() for output in cell.outputs)
    if name == "demo":
        assert "tier:    landlock" in text_of(cells["isolation"])
