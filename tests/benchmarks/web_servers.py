"""Web servers that serve and take files, as peers of downloads and uploads, and Jupyter's."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.harness import EngineClient

START_SECONDS: Final = 90.0
_TOKEN: Final = "t0k"
AUTHORIZATION: Final = {"Authorization": f"token {_TOKEN}"}
"""The header of requests to ``jupyter_server``."""

_TORNADO: Final = """
import asyncio, sys
from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler, StaticFileHandler, stream_request_body

@stream_request_body
class Upload(RequestHandler):
    def prepare(self):
        self.request.connection.set_max_body_size(1 << 40)
        self.file = open(sys.argv[2] + "/upload", "wb")
    def data_received(self, chunk):
        self.file.write(chunk)
    def put(self):
        self.file.close()

class Health(RequestHandler):
    def get(self):
        self.set_status(204)

async def main():
    static = {"path": sys.argv[2]}
    routes = [("/put", Upload), ("/health", Health), ("/(.*)", StaticFileHandler, static)]
    HTTPServer(Application(routes)).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()

asyncio.run(main())
"""

_NGINX: Final = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
user root;
events {{}}
http {{
  access_log off;
  sendfile on;
  client_max_body_size 0;
  client_body_temp_path {folder}/body;
  server {{
    listen 127.0.0.1:{port};
    root {folder};
    location / {{ dav_methods PUT; }}
  }}
}}
"""


def has_nginx() -> bool:
    return shutil.which("nginx") is not None


def not_installed() -> dict[str, str]:
    """The servers that this machine does not have."""
    return {} if has_nginx() else {"nginx": "not installed"}


@contextlib.contextmanager
def tornado(folder: str) -> Iterator[str]:
    """The framework of the engine: ``PUT /put`` writes ``upload``, which ``GET /upload`` reads."""
    (port,) = free_ports(1)
    script = Path(folder, "server.py")
    script.write_text(_TORNADO)
    with process(sys.executable, str(script), str(port), folder, port=port):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def nginx(folder: str) -> Iterator[str]:
    """nginx with one worker: ``PUT`` writes any file of ``folder``, ``GET`` reads it."""
    (port,) = free_ports(1)
    configuration = Path(folder, "nginx.conf")
    configuration.write_text(_NGINX.format(folder=folder, port=port))
    with process("nginx", "-c", str(configuration), "-p", folder, port=port):
        yield f"http://127.0.0.1:{port}"


def jupyter_server(
    engine: EngineClient,
    folder: str,
    port: int,
    *,
    python: str = sys.executable,
    with_proxy: bool = False,
) -> contextlib.AbstractContextManager[int]:
    """A Jupyter server on the files of ``folder``, with our extension on ``engine``.

    ``with_proxy`` loads ``jupyter-server-proxy`` too, which that ``python`` must have. Yields the
    number of the process.
    """
    key = engine.environment()["E2B_API_KEY"]
    extensions = {"sbx_jupyter": True} | ({"jupyter_server_proxy": True} if with_proxy else {})
    return process(
        *(python, "-m", "jupyter_server", "--no-browser", "--allow-root"),
        *(f"--port={port}", "--port-retries=0", f"--IdentityProvider.token={_TOKEN}"),
        *(f"--ServerApp.jpserver_extensions={extensions}", f"--ServerApp.root_dir={folder}"),
        *(f"--SbxExtension.api_url={engine.url}", f"--SbxExtension.sandbox_url={engine.url}"),
        f"--SbxExtension.api_key={key}",
        port=port,
    )


@contextlib.contextmanager
def process(*command: str, port: int) -> Iterator[int]:
    """A process that listens on ``port``; yields its number."""
    started = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: is_open(port), START_SECONDS, f"{command[0]} does not listen")
        yield started.pid
    finally:
        started.terminate()
        started.wait(20)


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def free_ports(count: int) -> list[int]:
    """Ports on which nothing listens."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
