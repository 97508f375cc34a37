"""What is published: built twice alike, installed from an index, upgraded and removed again."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import threading
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sbx_jupyter.agent.procfs import start_time_of
from tests.release.conftest import build, copy_of_checkout
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(1200)  # the front end is built twice


def test_a_second_build_in_the_same_place_gives_the_same_files(
    built: dict[str, Path], source: Path, tmp_path: Path
) -> None:
    # The front end's builder numbers modules by the path of the folder.
    shutil.rmtree(source)
    again = build(copy_of_checkout(source), tmp_path / "dist")

    assert {path.name for path in again.values()} == {path.name for path in built.values()}
    for suffix, path in built.items():
        assert path.read_bytes() == again[suffix].read_bytes(), path.name


@contextlib.contextmanager
def index_of(folder: Path, *wheels: Path) -> Iterator[str]:
    """The address of a package index with these wheels."""
    place = folder / "simple" / "sbx-jupyter"
    place.mkdir(parents=True)
    for wheel in wheels:
        shutil.copy(wheel, place)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


class Installation:
    """A virtual environment that has the dependencies from this one."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        venv.create(folder, with_pip=True)
        self.folder = folder
        self._environment = environment
        site = next(folder.glob("lib/python*/site-packages"))
        own = {path.name for path in site.iterdir()}
        for package in Path(sysconfig.get_path("purelib")).iterdir():
            if package.name not in own and not re.match(r"sbx_jupyter|.*\.pth$", package.name):
                (site / package.name).symlink_to(package)

    def run(self, program: str, *arguments: str) -> str:
        ran = subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def fails(self, program: str, *arguments: str) -> str:
        """What a command says that must fail."""
        ran = subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode != 0, ran.stdout
        return ran.stderr

    def pip(self, *arguments: str) -> str:
        return self.run("python", "-m", "pip", "--disable-pip-version-check", *arguments)

    def files(self) -> set[str]:
        return {
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if "__pycache__" not in path.parts
        }

    def info(self) -> dict[str, Any]:
        return json.loads(self.run("jupyter-sbx", "info", "--json"))


def test_it_is_installed_upgraded_under_running_sandboxes_and_removed(
    built: dict[str, Path],
    next_version: dict[str, Path],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    place = Installation(tmp_path / "venv", environment)
    before = place.files()
    with index_of(tmp_path / "index", built[".whl"], next_version[".whl"]) as index:
        options = ("--no-deps", "--index-url", index, "--no-cache-dir")
        place.pip("install", *options, "sbx-jupyter==0.1.0")
        installed = place.files() - before
        assert "share/jupyter/labextensions/sbx-jupyter/package.json" in installed
        for name in ("kernel.json", "logo-svg.svg"):
            assert f"share/jupyter/kernels/sbx-python3/{name}" in installed
        place.run("jupyter-sbx", "env")
        box = place.run("jupyter-sbx", "create", "--timeout", "600").split()[-1]
        place.run("jupyter-sbx", "exec", box, "--", "sh", "-c", "sleep 777 >/dev/null 2>&1 &")
        old = place.info()
        assert old["version"] == "0.1.0"

        place.pip("install", *options, "--upgrade", "sbx-jupyter")

    assert place.info()["pid"] == old["pid"]
    os.kill(old["pid"], signal.SIGHUP)
    until(lambda: start_time_of(old["pid"]) is None, message="the old engine goes on")
    place.run("jupyter-sbx", "env")
    assert place.info()["version"] == "0.1.1"
    assert "sleep 777" in place.run("jupyter-sbx", "exec", box, "--", "pgrep", "-a", "sleep")
    place.run("jupyter-sbx", "stop")

    with index_of(tmp_path / "earlier", built[".whl"]) as index:
        place.pip(
            "install", "--no-deps", "--index-url", index, "--no-cache-dir", "sbx-jupyter==0.1.0"
        )
    store = sorted((tmp_path / "data").glob("*.db*"))
    before_downgrade = [path.read_bytes() for path in store]
    assert "newer version" in place.fails("jupyter-sbx", "env")
    assert [path.read_bytes() for path in store] == before_downgrade

    place.pip("uninstall", "--yes", "sbx-jupyter")
    assert {path for path in place.files() - before if "sbx" in path} == set()


NEWCOMER = """
import time
from sbx_jupyter import Sandbox
began = time.perf_counter()
box = Sandbox.create()
print(box.commands.run("echo here").stdout, end="")
print(f"first sandbox: {time.perf_counter() - began:.2f} s")
box.kill()
"""


def test_a_newcomer_has_a_sandbox_in_a_new_environment(
    built: dict[str, Path], environment: dict[str, str], tmp_path: Path
) -> None:
    """Print how long each step of the README takes, with dependencies from the package index."""
    python = tmp_path / "venv" / "bin" / "python"
    venv.create(tmp_path / "venv", with_pip=True)

    def timed(what: str, *command: str) -> str:
        began = time.perf_counter()
        variables = {**os.environ, **environment}
        ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        print(f"{what}: {time.perf_counter() - began:.1f} s")
        return ran.stdout

    timed("pip install", str(python), "-m", "pip", "install", "-q", str(built[".whl"]))
    assert "tier:" in timed("doctor", str(python.with_name("jupyter-sbx")), "doctor")
    printed = timed("script", str(python), "-c", NEWCOMER)
    print(printed)
    assert printed.startswith("here\n")
    timed("help", str(python.with_name("jupyter-sbx")), "help", "limits")
    timed("stop", str(python.with_name("jupyter-sbx")), "stop")
