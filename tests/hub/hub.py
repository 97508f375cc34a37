"""A JupyterHub behind configurable-http-proxy, with two users, all private to the tests."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx

from tests.engine_process import CHECKOUT
from tests.hub.programs import install, paths_of
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON: Final = "/usr/bin/python3"
"""That of these tests may lie where only root may go."""

USERS: Final = {"ann": 64_981, "bob@lab": 64_982}
"""The users with their ids; one name is not the same in addresses."""

RECIPES: Final = CHECKOUT / "recipes" / "jupyterhub"
SLOW: Final = 120.0
"""Seconds for a server that starts on a busy machine."""


@dataclass
class Hub:
    """A running hub and calls to it; ``token`` may do everything."""

    folder: Path
    url: str
    proxy_api: str
    token: str
    process: subprocess.Popen[bytes] | None = None
    _tokens: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> str:
        return (self.folder / "hub.log").read_text()

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Call the hub's API as its administrator."""
        headers = {"Authorization": f"token {self.token}"}
        address = f"{self.url}/hub/api/{path}"
        return httpx.request(method, address, headers=headers, timeout=SLOW, **options)

    def start(self, user: str) -> None:
        """Start the user's server and wait until it answers."""
        name = quoted(user)
        asked = self.call("POST", f"users/{name}/server")
        assert asked.is_success, f"{asked.text}\n{self.log}"
        until(lambda: self.server(user).get("ready"), SLOW, f"no server:\n{self.log}", step=0.2)

    def stop(self, user: str) -> None:
        """Stop the user's server and wait until the hub knows it as ended."""
        self.call("DELETE", f"users/{quoted(user)}/server").raise_for_status()
        until(lambda: not self.server(user), SLOW, "the server does not stop", step=0.2)

    def server(self, user: str) -> dict[str, Any]:
        """What the hub knows about the user's server; nothing if there is none."""
        told = self.call("GET", f"users/{quoted(user)}").raise_for_status().json()
        return told["servers"].get("", {})

    def route(self, user: str) -> dict[str, Any]:
        """What the proxy knows about the user's server."""
        headers = {"Authorization": f"token {self.token}"}
        routes = httpx.get(f"{self.proxy_api}/api/routes", headers=headers, timeout=SLOW).json()
        return routes[f"/user/{user}"]

    def token_of(self, user: str) -> str:
        """A token with which programs may do what the user may."""
        if user not in self._tokens:
            made = self.call("POST", f"users/{quoted(user)}/tokens", json={"note": "tests"})
            self._tokens[user] = made.raise_for_status().json()["token"]
        return self._tokens[user]

    def address(self, user: str) -> str:
        """Where the user's server is, for browsers."""
        return f"{self.url}/user/{quoted(user)}/"

    def client(self, user: str, server_of: str = "") -> httpx.Client:
        """A client of a user's server, below ``sbx/``; of another user's with ``server_of``."""
        return httpx.Client(
            base_url=f"{self.address(server_of or user)}sbx/",
            headers={"Authorization": f"token {self.token_of(user)}"},
            timeout=SLOW,
        )


@contextlib.contextmanager
def running_hub(recipe: str, environment: dict[str, str] | None = None) -> Iterator[Hub]:
    """Start a hub with a recipe of ``recipes/jupyterhub``; ends it and every server."""
    programs = install()
    folder = Path(tempfile.mkdtemp(prefix="sbx-hub-", dir="/tmp"))
    folder.chmod(0o755)
    for name, uid in USERS.items():
        home = folder / "home" / name
        home.mkdir(parents=True)
        if os.geteuid() == 0:
            os.chown(home, uid, uid)
    public, own, proxy = free_ports(3)
    url, proxy_api = f"http://127.0.0.1:{public}", f"http://127.0.0.1:{proxy}"
    hub = Hub(folder, url, proxy_api, secrets.token_hex(20))
    settings = {
        "folder": str(folder),
        "recipe": str(RECIPES / f"{recipe}.py"),
        "url": url,
        "hub_port": own,
        "proxy": str(programs / "node_modules/.bin/configurable-http-proxy"),
        "proxy_api": proxy_api,
        "token": hub.token,
        "users": USERS,
        "python": PYTHON,
        "environment": {
            "PYTHONPATH": ":".join(paths_of(programs)),
            "JUPYTER_PATH": f"{programs}/share/jupyter:{sys.prefix}/share/jupyter",
            "JUPYTER_CONFIG_PATH": f"{programs}/etc/jupyter:{sys.prefix}/etc/jupyter",
        },
        "app_dir": str(Path(sys.prefix) / "share/jupyter/lab"),
    }
    kept = ("PATH", "LANG", "NODE_PATH")
    own_environment = {name: os.environ[name] for name in kept if name in os.environ}
    own_environment["PATH"] = f"{programs}/bin:{own_environment['PATH']}"
    own_environment |= {"HOME": str(folder), "SBX_HUB_TESTS": json.dumps(settings)}
    own_environment |= environment or {}
    config = Path(__file__).with_name("jupyterhub_config.py")
    command = [str(programs / "bin/python"), "-m", "jupyterhub", "-f", str(config)]
    try:
        with (folder / "hub.log").open("wb") as log:
            hub.process = subprocess.Popen(
                command,
                cwd=folder,
                env=own_environment | (environment or {}),
                stdout=log,
                stderr=log,
            )
        until(lambda: is_up(hub), SLOW, f"no hub in {folder}", step=0.2)
        yield hub
    finally:
        end(hub)
        shutil.rmtree(folder)


def end(hub: Hub) -> None:
    """End the hub as its administrator does, with the servers and the proxy."""
    if hub.process is not None and hub.process.poll() is None:
        hub.process.send_signal(signal.SIGTERM)
        hub.process.wait(SLOW)


def quoted(user: str) -> str:
    """The name as JupyterHub writes it in addresses."""
    return quote(user, safe="@~")


def is_up(hub: Hub) -> bool:
    assert hub.process is not None
    assert hub.process.poll() is None, hub.log
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{hub.url}/hub/health", timeout=2).is_success
    return False


def processes_of(uids: set[int]) -> dict[int, str]:
    """The processes of users by their ids, with their commands."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "task").stat().st_uid in uids:
                line = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                found[int(folder.name)] = line
    return found


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as probes:
        bound: list[int] = []
        for _ in range(count):
            probe = probes.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            bound.append(probe.getsockname()[1])
        return bound
