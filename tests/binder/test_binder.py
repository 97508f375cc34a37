"""The notebooks in a simulated Binder: an ordinary user, and a kernel that makes no namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from typing import TYPE_CHECKING

import nbformat
import pytest

from sbx_jupyter import ConnectionConfig, Sandbox
from tests.demo.notebooks import SHOWN, check, executed, text_of
from tests.engine.test_landlock import python
from tests.engine_process import CHECKOUT, EngineProcess, engine_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="root alone can forbid user namespaces"),
    pytest.mark.timeout(180),
]

__all__ = ["python"]  # a fixture

UID = 64_990
FORBID_NAMESPACES = (
    *("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"),
    *("unshare", "--map-current-user", "--keep-caps", "sh", "-ec"),
    "echo 0 > /proc/sys/user/max_user_namespaces\n"
    'exec setpriv --ambient-caps=-all --inh-caps=-all --no-new-privs "$@"',
    "sh",
)


@pytest.fixture(scope="module")
def engine(python: Path) -> Iterator[EngineProcess]:
    paths = f"{CHECKOUT}:{sysconfig.get_path('purelib')}"
    with engine_process(
        "binder",
        environment={"HOME": "/tmp", "PYTHONPATH": paths},
        prefix=FORBID_NAMESPACES,
        python=str(python / "bin" / "python"),
        uid=UID,
    ) as running:
        yield running


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_does_what_it_says(engine: EngineProcess, name: str, tmp_path: Path) -> None:
    check(name, executed(name, engine, tmp_path))


@pytest.mark.parametrize("name", ["demo", "fork-and-compare"])
def test_a_notebook_runs_to_its_end(engine: EngineProcess, name: str, tmp_path: Path) -> None:
    cells = executed(name, engine, tmp_path)

    assert all(output.get("name") != "stderr" for cell in cells.values() for output in cell.outputs)
    if name == "demo":
        assert "tier:    landlock" in text_of(cells["isolation"])
        assert "200 written from the notebook" in text_of(cells["port"])
    else:
        assert text_of(cells["compare"]).count("slope") >= 3
        assert "nearest to the true slope of 3: clip" in text_of(cells["fetch"])


def test_where_nothing_isolates_each_notebook_says_so_first(tmp_path: Path) -> None:
    for notebook in (CHECKOUT / "binder").glob("*.ipynb"):
        shutil.copy(notebook, tmp_path)

    for _ in range(2):
        script = CHECKOUT / "binder" / "say_not_isolated.py"
        subprocess.run([sys.executable, script, tmp_path], check=True)

    for path in tmp_path.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        assert [("Not isolated" in cell.source) for cell in cells[:2]] == [True, False]


def test_a_first_sandbox_is_there_in_seconds(engine: EngineProcess, tmp_path: Path) -> None:
    """Print what the report needs: how long the first sandbox of an engine takes."""
    started = time.perf_counter()
    with Sandbox.create(config=ConnectionConfig(engine.url, engine.key)) as box:
        assert box.commands.run("echo here").stdout == "here\n"
    print(f"sandbox with its first command: {1000 * (time.perf_counter() - started):.0f} ms")
