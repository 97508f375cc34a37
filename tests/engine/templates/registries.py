"""Container registries on this machine: real ones, and what gives out their tokens."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.waiting import PATIENCE, until

from .images import TinyImage, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import Message

REGISTRY = Path("/usr/bin/docker-registry")


@contextlib.contextmanager
def serve_registry(folder: Path, auth: str = "") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A real registry on a free port; ``auth`` is its configuration."""
    if not REGISTRY.exists():
        pytest.skip("needs the Debian package docker-registry")
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / f"config-{port}.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\n{auth}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    process = subprocess.Popen(
        [REGISTRY, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: _serves(port), message="the registry does not start")
        yield f"127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _serves(port: int) -> bool:
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/v2/", trust_env=False, timeout=PATIENCE)
    except httpx.TransportError:
        return False
    return answer.status_code in (200, 401)


def htpasswd(folder: Path, user: str, password: str) -> str:
    """The configuration of a registry that lets one user in."""
    salted = ["perl", "-e", "print crypt($ARGV[0], '$2b$04$abcdefghijklmnopqrstuu')", password]
    made = subprocess.run(salted, capture_output=True, text=True, check=True).stdout
    (folder / "htpasswd").write_text(f"{user}:{made}\n")
    return f"auth: {{htpasswd: {{realm: tiny, path: {folder}/htpasswd}}}}"


def silly_auth(realm: str) -> str:
    """The configuration of a registry that sends everybody to ``realm`` for a token."""
    return f"auth: {{silly: {{realm: '{realm}', service: tiny}}}}"


@contextlib.contextmanager
def serve_tokens(give: Callable[[str, Message], str | None]) -> Iterator[str]:
    """A service of tokens; ``give`` is told path and headers, and refuses with ``None``."""

    class Tokens(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            token = give(self.path, self.headers)
            body = json.dumps({"token": token}).encode()
            self.send_response(200 if token is not None else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()


def push(host: str, image: TinyImage) -> None:
    with httpx.Client(
        base_url=f"http://{host}/v2/tiny/", trust_env=False, timeout=PATIENCE
    ) as client:
        for part in (*image.layers, image.config):
            where = client.post("blobs/uploads/").headers["Location"]
            joint = "&" if "?" in where else "?"
            sent = client.put(f"{where}{joint}digest={digest(part)}", content=part)
            assert sent.status_code == 201, sent.text
        kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
        sent = client.put("manifests/v1", content=image.manifest, headers=kind)
        assert sent.status_code == 201, sent.text
