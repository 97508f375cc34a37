"""Starts an engine of each tier, as root or as an ordinary user, with what sandboxes try."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter import ConnectionConfig
from sbx_jupyter.client.connection.bundled import find_engine
from tests.engine.templates.test_users import give_range
from tests.engine_process import CHECKOUT
from tests.host_server import host_server
from tests.tiers.rows import LANDLOCK, MANY, NONE, ROOT
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

UID: Final = 64_871
_WHEEL: Final = {
    "METADATA": "Metadata-Version: 2.1\nName: sbx-tried\nVersion: 1\n",
    "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\nRoot-Is-Purelib: true\n",
    "RECORD": "",
}


@dataclass(frozen=True, slots=True)
class Tried:
    """An engine, and what commands name by ``{name}``."""

    config: ConnectionConfig
    port: int
    """Of a server of the machine, which answers ``host``."""
    names: dict[str, str]


@contextlib.contextmanager
def engine_of(kind: str, python: Path) -> Iterator[Tried]:
    """An engine of a kind; ``python`` is an environment of every user's Python."""
    # Not in /dev/shm, which is another one in each sandbox.
    home = Path(tempfile.mkdtemp(prefix="sbx-tiers-", dir="/tmp"))
    try:
        home.chmod(0o755)
        secret = home / "secret"
        secret.write_text("secret")
        secret.chmod(0o600)
        if kind != ROOT:
            for path in (home, secret):
                os.chown(path, UID, UID)
        with host_server() as port, _running(kind, home, python) as pid:
            found = until(lambda: find_engine(home / "data"), timeout=120, message=_log(home))
            names = {"secret": str(secret), "pid": str(pid), "port": str(port)}
            yield Tried(ConnectionConfig(found.url, found.api_key), port, names)
    finally:
        shutil.rmtree(home)


@contextlib.contextmanager
def _running(kind: str, home: Path, python: Path) -> Iterator[int]:
    options = ["--port=0", f"--data-dir={home / 'data'}", "--pool-size=0"]
    options.append("--SbxEngine.egress_exceptions=127.0.0.0/8")
    if kind in (LANDLOCK, NONE):
        options.append(f"--isolation={kind}")
    program = [str(python / "bin/python"), "-B", "-m", "sbx_jupyter.cli.main", "engine", *options]
    become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    setup = give_range(home, UID) if kind == MANY else "true"
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    environment = {
        "HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": f"{CHECKOUT}:{packages}",
    }  # fmt: skip
    with (home / "engine.log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "-m", "sh", "-ec", f'{setup}\nexec "$@"', "sh",
             *([] if kind == ROOT else become), *program],
            env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        process.kill()
        process.wait()


def _log(home: Path) -> str:
    return f"see {home / 'engine.log'}"


def make_packages(folder: Path) -> list[Path]:
    """A package of Debian and a wheel, which a sandbox installs without a network."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: sbx-tried\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@example.org>\n"
        "Description: says hello\n"
    )
    script = tree / "usr/bin/sbx-says-hello"
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)
    package, wheel = folder / "tried.deb", folder / "sbx_tried-1-py3-none-any.whl"
    subprocess.run(["dpkg-deb", "--build", tree, package], check=True, capture_output=True)
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("sbx_tried.py", "SAID = 'hello'\n")
        for name, text in _WHEEL.items():
            file.writestr(f"sbx_tried-1.dist-info/{name}", text)
    return [package, wheel]
