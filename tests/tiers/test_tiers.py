"""Each line of ``docs/tiers.md``, tried in a sandbox of an engine of each tier."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from sbx_jupyter import Sandbox
from sbx_jupyter.errors import SbxError
from sbx_jupyter.protocol.platform import NetworkConfig
from tests.engine.templates.images import TinyImage
from tests.system_python import PYTHON, VERSION, environment_for_all
from tests.tiers.engines import Tried, engine_of, make_packages
from tests.tiers.rows import ROWS, TIERS, Row
from tests.waiting import PATIENCE, until

pytestmark = [
    pytest.mark.skipif(
        os.getuid() != 0
        or any(shutil.which(tool) is None for tool in ("setpriv", "newuidmap", "dpkg-deb"))
        or Path(PYTHON).resolve().name != VERSION,
        reason="needs root, setpriv, newuidmap, dpkg-deb and the system's Python",
    ),
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="session")
def python() -> Iterator[Path]:
    """An environment of every user's Python, with what the code interpreter needs."""
    with environment_for_all("/tmp") as made:
        yield made


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_packages(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module", params=TIERS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def tried(kind: str, python: Path) -> Iterator[Tried]:
    with engine_of(kind, python) as running:
        yield running


@pytest.fixture(scope="module")
def box(tried: Tried, packages: list[Path]) -> Iterator[Sandbox]:
    with Sandbox.create("code-interpreter-v1", config=tried.config, timeout=1800) as made:
        for file in packages:
            made.files.write(file.name, file.read_bytes())
        yield made


def _serve(box: Sandbox, tried: Tried) -> str:
    port = _free_port()
    server = box.commands.run(f"python3 -m http.server {port}", background=True, timeout=0)
    headers = {"Host": box.get_host(port)}
    with httpx.Client(
        base_url=tried.config.api_url, headers=headers, trust_env=False, timeout=PATIENCE
    ) as client:
        until(lambda: client.get("/").status_code == 200, timeout=60)
    server.kill()
    return "answered"


def _free_port() -> int:
    """One of the machine, since the sandboxes of one tier use its network."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def _way_out(box: Sandbox, tried: Tried) -> str:
    ask = f"curl -s --noproxy '' http://127.0.0.1:{tried.port}/"
    said = ["allowed" if box.commands.run(ask).stdout == "host" else "-"]
    box.update_network(NetworkConfig(deny_out=["0.0.0.0/0"]))
    said.append("denied" if "denied" in box.commands.run(ask).stdout else "-")
    box.update_network(NetworkConfig())
    return " ".join(said)


def _terminal(box: Sandbox, _: Tried) -> str:
    seen = b""
    with box.pty.create(command=("/bin/cat",)) as terminal:
        box.pty.send_stdin(terminal.pid, b"typed\n")
        for output in terminal:
            seen += output.chunk
            if seen.count(b"typed") == 2:  # the echo, and what cat says
                break
        box.pty.kill(terminal.pid)
    return "typed"


def _pause(box: Sandbox, tried: Tried) -> str:
    box.pause()
    Sandbox.connect(box.sandbox_id, config=tried.config)
    return box.commands.run("echo 42").stdout.strip()


def _fork(box: Sandbox, _: Tried) -> str:
    box.files.write("forked", "42")
    (copy,) = box.fork()
    with copy:
        return str(copy.files.read("forked"))


def _snapshot(box: Sandbox, tried: Tried) -> str:
    box.files.write("captured", "42")
    made = box.create_snapshot()
    box.files.write("captured", "changed")
    with Sandbox.create(made.snapshot_id, config=tried.config) as copy:
        return str(copy.files.read("captured"))


def _build(_: Sandbox, tried: Tried) -> str:
    with _platform(tried) as client:
        made = client.post("/v3/templates", json={"name": "tried"}).json()
        steps = [{"type": "WORKDIR", "args": ["/app"]}, {"type": "RUN", "args": ["echo 42 > said"]}]
        path = f"/v2/templates/{made['templateID']}/builds/{made['buildID']}"
        client.post(path, json={"fromTemplate": "base", "steps": steps}).raise_for_status()
        status = f"/templates/{made['templateID']}/builds/{made['buildID']}/status"
        until(lambda: client.get(status).json()["status"] in ("ready", "error"), timeout=120)
    with Sandbox.create("tried", config=tried.config) as box:
        return box.commands.run("cat said", cwd="/app").stdout.strip()


def _image(_: Sandbox, tried: Tried) -> str:
    with _platform(tried) as client:
        answer = client.put("/engine/images/tried", content=TinyImage().layout())
    return "imported" if answer.status_code == 201 else str(answer.json()["message"])


def _volume(_: Sandbox, tried: Tried) -> str:
    with _platform(tried) as client:
        client.post("/volumes", json={"name": "tried"}).raise_for_status()
    volumes = {"/data": "tried"}
    with Sandbox.create(volumes=volumes, config=tried.config) as box:
        box.commands.run("sudo sh -c 'echo kept > /data/f'")
    with Sandbox.create(volumes=volumes, config=tried.config) as box:
        return box.commands.run("cat /data/f").stdout.strip()


@contextlib.contextmanager
def _platform(tried: Tried) -> Iterator[httpx.Client]:
    headers = {"X-API-Key": tried.config.api_key or ""}
    with httpx.Client(
        base_url=tried.config.api_url, headers=headers, timeout=60, trust_env=False
    ) as client:
        yield client


CALLS: Final[dict[str, Callable[[Sandbox, Tried], str]]] = {
    "a port, seen from outside": _serve,
    "a way out that obeys allow and deny lists": _way_out,
    "terminals": _terminal,
    "the code interpreter": lambda box, _: box.run_code("6 * 7").text or "",
    "pause and resume": _pause,
    "fork": _fork,
    "snapshots": _snapshot,
    "template builds": _build,
    "container images": _image,
    "volumes": _volume,
}


def _run(box: Sandbox, row: Row, tried: Tried) -> tuple[str, str]:
    """What a row gives, and what went wrong beside."""
    if not row.command:
        try:
            return CALLS[row.what](box, tried), ""
        except SbxError as error:
            return error.message, ""
    names = {"wheel": "./sbx_tried-1-py3-none-any.whl", "package": "./tried.deb"}
    command = row.command
    for name, text in {**tried.names, **names, "own_port": str(_free_port())}.items():
        command = command.replace(f"{{{name}}}", text)
    done = box.commands.run(command, timeout=120)
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_the_page_is_right(kind: str, row: Row, box: Sandbox, tried: Tried) -> None:
    said, error = _run(box, row, tried)

    print(f"{kind}: {row.what}: {said!r} {error[-300:]!r}")
    assert (said == row.expected) == (kind not in row.lacks), f"{said}\n{error}"
