"""The scripts of ``binder/``, run with stand-ins for the programs that they start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import nbformat
import pytest

from tests.engine_process import CHECKOUT
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.long

TOUR = "/lab/tree/binder/tour.ipynb"
OF_NONE = 'c.SbxEngine.isolation = "none"\n'


def stand_in(folder: Path, name: str, script: str) -> None:
    """Make a program that runs a script of the shell in place of the one with this name."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def run(home: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in ``home``, with the stand-ins in front of this environment's programs."""
    path = f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"HOME": str(home), "PATH": path}
    return subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home as Binder makes it: it is the repository."""
    shutil.copytree(CHECKOUT / "binder", tmp_path / "binder")
    return tmp_path


def first_cells(home: Path) -> dict[str, str]:
    """The first cell of each notebook."""
    notebooks = (home / "binder").glob("*.ipynb")
    return {path.stem: nbformat.read(path, as_version=4).cells[0].source for path in notebooks}


@pytest.mark.parametrize(
    ("doctor", "says_none"),
    [
        ("""echo '{"tier": "none"}'""", True),
        ("""echo '{"tier": "landlock"}'""", False),
        ("""echo '{"tier": "namespaces"}'""", False),
        ("exit 1", False),
    ],
)
def test_only_where_nothing_isolates_the_start_asks_for_no_isolation(
    home: Path, doctor: str, says_none: bool
) -> None:
    stand_in(home / "bin", "jupyter", f'[ "$*" = "sbx doctor --json" ] || exit 0\n{doctor}')

    for _ in range(2):
        started = run(home, home / "binder" / "start", "echo", "started", "with these")
        assert (started.returncode, started.stdout) == (0, "started with these\n")

    settings = home / ".jupyter" / "jupyter_sbx_config.py"
    assert (settings.read_text() if settings.exists() else "") == OF_NONE * says_none
    cells = first_cells(home)
    assert {"tour", "demo"} <= cells.keys()
    assert {"Not isolated" in text for text in cells.values()} == {says_none}


def test_jupyterlab_opens_on_the_tour(home: Path) -> None:
    stand_in(home / "bin", "jupyter", """echo '{"tier": "landlock"}'""")
    assert run(home, home / "binder" / "start", "true").returncode == 0

    environment = os.environ | {"HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / ".jupyter")}
    options = ["--no-browser", "--port=0", "--IdentityProvider.token=", "--allow-root"]
    command = [sys.executable, "-m", "jupyterlab", *options]
    log = home / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=home, env=environment, stderr=output) as server,
    ):
        try:
            said = r"http://127\.0\.0\.1:(\d+)"
            [port] = until(lambda: re.findall(said, log.read_text())[:1], 60)
            answer = httpx.get(f"http://127.0.0.1:{port}/", timeout=PATIENCE)
        finally:
            server.terminate()

    assert answer.headers["Location"].partition("?")[0] == TOUR
    assert (home / "binder" / Path(TOUR).name).exists()


LISTED = 'echo "  sbx-jupyter v0.1.0 enabled OK (python, sbx-jupyter)"'
MUCH_MORE = "\ni=0; while [ $i -lt 9000 ]; do echo another extension; i=$((i + 1)); done"


@pytest.mark.parametrize(
    ("listing", "builds"),
    [
        (LISTED, True),
        (LISTED + MUCH_MORE, True),
        (LISTED.replace("OK", "X"), False),
        (f"{LISTED}\nexit 1", False),
    ],
)
def test_a_build_fails_only_where_the_front_end_is_not_enabled(
    home: Path, listing: str, builds: bool
) -> None:
    stand_in(home / "bin", "python", 'echo "$@" >> steps')
    stand_in(home / "bin", "jupyter", listing)

    built = run(home, home / "binder" / "postBuild")

    assert (built.returncode == 0) is builds, built.stderr
    steps = (home / "steps").read_text().splitlines()
    assert "pip install" in steps[0]
    assert ("match_kernel.py" in steps[-1]) is builds
