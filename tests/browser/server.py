"""A private Jupyter server with the extension of this checkout."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from sbx_jupyter.client import ConnectionConfig
from sbx_jupyter.client.connection.bundled import find_engine
from tests.waiting import PATIENCE, until, until_equal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKOUT = Path(__file__).resolve().parents[2]
LABEXTENSION = CHECKOUT / "sbx_jupyter" / "labextension"
LABEXTENSION_NAME = "sbx-jupyter"
BASE_URL = "/user/a%40b/"
"""What a hub gives: it catches every path that is built by hand."""
TOKEN = "t0k"
START_PATIENCE = 90.0
STOP_PATIENCE = 60.0


@dataclass
class JupyterServer:
    """A running server and its routes, called with the token as a script would."""

    url: str
    root: Path
    log: Path
    http: httpx.Client
    process: subprocess.Popen[bytes]
    launch: Callable[[], subprocess.Popen[bytes]]
    has_extension: bool = True

    def restart(self) -> None:
        """Stop the server and start it again at the same address."""
        self.stop()
        self.process = self.launch()
        _wait_ready(self.process, self.url, self.log)

    def connection(self) -> ConnectionConfig:
        """The way to the engine itself, past this server."""
        config = json.loads((self.log.parent / "config/jupyter_server_config.json").read_text())
        engine = find_engine(Path(config["SbxExtension"]["data_dir"]))
        assert engine is not None
        return ConnectionConfig.from_connection_file(engine)

    def stop(self) -> None:
        """Let the server end; no page may use it meanwhile.

        A listing of files that is under way leaves Jupyter's server a thread that it never ends,
        and its process waits for that thread for ever.
        """
        self.process.terminate()
        self.process.wait(STOP_PATIENCE)

    def crash(self) -> None:
        """Take the server away, as a crash does."""
        self.process.kill()
        self.process.wait()

    def end_kernels(self) -> None:
        """End all kernels: a server that stops while one of them is being ended never stops."""
        kernels = f"{self.url}api/kernels"

        def left() -> list[dict[str, Any]]:
            listed = self.http.get(kernels).raise_for_status().json()
            for kernel in listed:
                self.http.delete(f"{kernels}/{kernel['id']}")
            return listed

        until_equal(left, [], START_PATIENCE, "The kernels did not end", step=0.1)

    def create(self, name: str | None = None, **fields: Any) -> str:
        """A new sandbox's id."""
        body = {"timeout": 600} | ({"name": name} if name else {}) | fields
        response = self.http.post("sandboxes", json=body)
        response.raise_for_status()
        return response.json()["sandboxID"]

    def sandboxes(self) -> dict[str, dict[str, Any]]:
        listed = self.http.get("sandboxes").raise_for_status().json()["sandboxes"]
        return {item["sandboxID"]: item for item in listed}

    def kill(self, sandbox_id: str) -> None:
        self.http.delete(f"sandboxes/{sandbox_id}")

    def read(self, sandbox_id: str, path: str) -> bytes | None:
        """A file's bytes, or ``None`` while it is not there."""
        response = self.http.get(f"sandboxes/{sandbox_id}/files", params={"path": path})
        if response.status_code == 404:
            return None
        return response.raise_for_status().content

    def write(self, sandbox_id: str, path: str, content: bytes) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        params = {"path": path}
        url = f"sandboxes/{sandbox_id}/files"
        self.http.post(url, params=params, content=content, headers=headers).raise_for_status()

    def wait_for(
        self, sandbox_id: str, path: str, content: bytes, seconds: float = PATIENCE
    ) -> None:
        """Wait until the file holds ``content``, the effect of what was typed."""
        message = f"{path} did not hold {content!r}"
        until_equal(lambda: self.read(sandbox_id, path), content, seconds, message, step=0.1)


@contextlib.contextmanager
def jupyter_server(
    home: Path,
    engine_dir: Path,
    *,
    settings: dict[str, Any] | None = None,
    python: tuple[str, ...] = (sys.executable,),
    has_extension: bool = True,
) -> Iterator[JupyterServer]:
    """Start a server whose every directory is below ``home``.

    ``settings`` are the extension's in place of the engine's directory; ``python`` is the command
    of the interpreter, for instance as another user. Without ``has_extension`` it
    is a plain server.
    """
    assert (LABEXTENSION / "package.json").exists(), "the labextension is not built: make build"
    port = _free_port()
    url = f"http://127.0.0.1:{port}{BASE_URL}"
    root = home / "root"
    log = home / "jupyter.log"
    environment = _prepare(home, root, engine_dir, settings, has_extension=has_extension)
    command = [
        *(
            *python,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            "--ip=127.0.0.1",
        ),
        *(f"--port={port}", "--port-retries=0", f"--ServerApp.base_url={BASE_URL}"),
        *(f"--ServerApp.root_dir={root}", "--LabApp.expose_app_in_browser=True"),
        # Where another interpreter than that of these tests would not look.
        f"--LabApp.app_dir={Path(sys.prefix) / 'share' / 'jupyter' / 'lab'}",
        "--JupyterNotebookApp.expose_app_in_browser=True",
        # That of this environment would be found as well.
        *([] if has_extension else [f"--LabApp.labextensions_path={home / 'data/labextensions'}"]),
    ]

    def launch() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    headers = {"Authorization": f"token {TOKEN}"}
    with httpx.Client(base_url=f"{url}sbx/api/", headers=headers, timeout=30) as client:
        server = JupyterServer(url, root, log, client, launch(), launch, has_extension)
        try:
            _wait_ready(server.process, url, log)
            yield server
            if server.process.poll() is None:
                server.end_kernels()
        finally:
            server.stop()


def _prepare(
    home: Path,
    root: Path,
    engine_dir: Path,
    extension: dict[str, Any] | None,
    *,
    has_extension: bool,
) -> dict[str, str]:
    """Make the private directories; the environment that points to them."""
    root.mkdir()
    extensions = home / "data" / "labextensions"
    extensions.mkdir(parents=True)
    if has_extension:
        (extensions / LABEXTENSION_NAME).symlink_to(LABEXTENSION)
    else:
        for other in Path(sys.prefix, "share/jupyter/labextensions").glob("*"):
            if other.name != LABEXTENSION_NAME:
                (extensions / other.name).symlink_to(other)
    config = home / "config"
    config.mkdir()
    settings = {
        "ServerApp": {"jpserver_extensions": {"sbx_jupyter": has_extension, "notebook": True}},
        "IdentityProvider": {"token": TOKEN},
        "SbxExtension": extension or {"data_dir": str(engine_dir), "auto_start": False},
    }
    (config / "jupyter_server_config.json").write_text(json.dumps(settings))
    notifications = home / "settings" / "@jupyterlab" / "apputils-extension"
    notifications.mkdir(parents=True)
    # Else every page asks whether it may fetch news.
    (notifications / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    own = {name: str(home / folder) for name, folder in folders.items()}
    own |= {
        "HOME": str(home),
        "PYTHONPATH": f"{CHECKOUT}:{sysconfig.get_path('purelib')}",
        "SBX_DATA_DIR": str(engine_dir),
    }
    return {**os.environ, **own}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    def answers() -> bool:
        assert process.poll() is None, f"It ended with {process.returncode}"
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{url}api", timeout=2).is_success
        return False

    try:
        until(answers, START_PATIENCE, "It did not answer", step=0.1)
    except AssertionError as error:
        raise AssertionError(f"no Jupyter server: {error}\n{log.read_text()}") from error
