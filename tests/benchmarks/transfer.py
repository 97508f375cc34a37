"""Rate of down- and uploads of a 1 GiB file, compared with tornado's static file handler."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.harness import RawConnection, report_rate, timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.harness import EngineClient

SIZE = 1 << 30
ROUNDS = 3
CHUNK = bytes(1 << 20)

STATIC_SERVER = """
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


def run(engine: EngineClient) -> None:
    with engine.sandbox() as sandbox, tempfile.TemporaryDirectory() as folder:
        headers = {**engine.headers(sandbox), "accept-encoding": "identity"}
        upload_headers = {**headers, "content-type": "application/octet-stream"}
        with static_server(folder) as static:
            figures: dict[str, list[float]] = {"up": [], "static up": [], "down": [], "static": []}
            for _ in range(ROUNDS):
                figures["static up"].append(timed(lambda: upload(static, "/put", {}, "PUT")))
                figures["up"].append(
                    timed(lambda: upload(engine.url, "/files?path=big", upload_headers))
                )
                figures["static"].append(timed(lambda: download(static, "/upload", {})))
                figures["down"].append(
                    timed(lambda: download(engine.url, "/files?path=big", headers))
                )
    baseline = report_rate("tornado StaticFileHandler, download", SIZE, figures["static"])
    report_rate("GET /files, download", SIZE, figures["down"], baseline)
    baseline = report_rate("tornado stream_request_body, upload", SIZE, figures["static up"])
    report_rate("POST /files, upload", SIZE, figures["up"], baseline)


def download(url: str, path: str, headers: dict[str, str]) -> None:
    connection = RawConnection(url)
    connection.send_head("GET", path, headers, 0)
    if (status := connection.read_head()) != 200:
        raise RuntimeError(f"GET {path}: {status}")
    buffer = bytearray(len(CHUNK))
    size = connection.buffered
    while size < SIZE and (received := connection.socket.recv_into(buffer)):
        size += received
    connection.close()
    if size != SIZE:
        raise RuntimeError(f"{size} bytes")


def upload(url: str, path: str, headers: dict[str, str], method: str = "POST") -> None:
    connection = RawConnection(url)
    connection.send_head(method, path, headers, SIZE)
    for _ in range(SIZE // len(CHUNK)):
        connection.socket.sendall(CHUNK)
    if (status := connection.read_head()) != 200:
        raise RuntimeError(f"{method} {path}: {status}")
    connection.close()


@contextlib.contextmanager
def static_server(folder: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = Path(folder, "server.py")
    script.write_text(STATIC_SERVER)
    process = subprocess.Popen([sys.executable, str(script), str(port), folder])
    try:
        wait_for_port(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def wait_for_port(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("the server did not start")
