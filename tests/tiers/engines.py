"""Starts an engine of each tier, as root or as an ordinary user, with what sandboxes try."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sbx_jupyter import ConnectionConfig
from tests.engine.templates.test_users import give_range
from tests.engine_process import CHECKOUT, EngineProcess, engine_process
from tests.host_server import host_server
from tests.system_python import environment_for_all
from tests.tiers.rows import LANDLOCK, MANY, NONE, ROOT

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
    exceptions = "--SbxEngine.egress_exceptions=127.0.0.0/8"
    with _home(kind) as home, host_server() as port:
        secret = home / "secret"
        secret.write_text("secret")
        secret.chmod(0o600)
        if kind != ROOT:
            os.chown(secret, UID, UID)
        with _running(kind, home, python, "--pool-size=0", exceptions) as engine:
            names = {"secret": str(secret), "pid": str(engine.pid), "port": str(port)}
            yield Tried(ConnectionConfig(engine.url, engine.key), port, names)


@contextlib.contextmanager
def engine_process_of(kind: str, *options: str) -> Iterator[EngineProcess]:
    """An engine of a kind, whose programs have what the code interpreter needs, and charts."""
    with (
        environment_for_all("/tmp", "matplotlib", "pandas", "pillow") as python,
        _home(kind) as home,
        _running(kind, home, python, *options) as engine,
    ):
        yield engine


@contextlib.contextmanager
def _home(kind: str) -> Iterator[Path]:
    # Not in /dev/shm, which is another one in each sandbox.
    home = Path(tempfile.mkdtemp(prefix="sbx-tiers-", dir="/tmp"))
    home.chmod(0o755)
    if kind != ROOT:
        os.chown(home, UID, UID)
    try:
        yield home
    finally:
        shutil.rmtree(home)


@contextlib.contextmanager
def _running(kind: str, home: Path, python: Path, *options: str) -> Iterator[EngineProcess]:
    isolation = [f"--isolation={kind}"] if kind in (LANDLOCK, NONE) else []
    become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    setup = give_range(home, UID) if kind == MANY else "true"
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    with engine_process(
        "tiers",
        *isolation,
        *options,
        environment={"HOME": str(home), "PYTHONPATH": f"{CHECKOUT}:{packages}"},
        prefix=(
            *("unshare", "-m", "sh", "-ec", f'{setup}\ncd /\nexec "$@"', "sh"),
            *([] if kind == ROOT else become),
        ),
        python=str(python / "bin/python"),
        uid=None if kind == ROOT else UID,
    ) as engine:
        yield engine


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
