"""Requests through the proxy of ports and through jupyter-server-proxy, in one Jupyter server.

Behind both is the same program: in a sandbox for ours, beside the server for theirs.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tests.benchmarks.contests import OURS, Contestants, Row, measure
from tests.benchmarks.harness import RawConnection, report, resident_bytes, timed
from tests.engine_process import CHECKOUT
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.benchmarks.harness import EngineClient

FOLDER: Final = CHECKOUT / ".jupyter-server-proxy"
THEIRS: Final = "jupyter-server-proxy"
SIZE: Final = 90_000_000
"""Of a large answer; theirs fails with 599 beyond 100 MB, where ours has no limit."""
PORT: Final = 8000
START_SECONDS: Final = 90.0
TOKEN: Final = "t0k"

PROGRAM: Final = """
import asyncio, sys
BODIES = {b"/small": b"x" * 100, b"/large": bytes(90_000_000)}

async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            body = memoryview(BODIES[head.split(b" ", 2)[1]])
            writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body))
            for start in range(0, len(body), 1 << 20):
                writer.write(body[start:start + (1 << 20)])
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()

asyncio.run(main())
"""


def run(engine: EngineClient) -> None:
    with _servers(engine) as (url, paths, pid):
        for path, rounds, size in (("/small", 300, 100), ("/large", 7, SIZE)):
            gets = functools.partial(_gets, url, paths, path, size)
            before = resident_bytes(pid)
            figures = measure(Row(path, "1.0", rounds, gets), engine)
            after = resident_bytes(pid)
            report(f"GET {size} bytes, {THEIRS}", figures.seconds[THEIRS])
            report(f"GET {size} bytes, {OURS}", figures.seconds[OURS], figures.seconds[THEIRS])
            ratio = figures.ratio(THEIRS)
            print(f"  ratio {ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")
            print(f"  memory of the server: {before / 1e6:.0f} MB, then {after / 1e6:.0f} MB")


@contextlib.contextmanager
def _gets(
    url: str, paths: dict[str, str], path: str, size: int, _: EngineClient
) -> Generator[Contestants]:
    headers = {"Authorization": f"token {TOKEN}", "Accept-Encoding": "identity"}
    with contextlib.ExitStack() as stack:
        connections = {
            name: stack.enter_context(contextlib.closing(RawConnection(url))) for name in paths
        }

        def get(name: str) -> None:
            connections[name].send_head("GET", paths[name] + path, headers, 0)
            status = connections[name].read_head()
            received = sum(len(piece) for piece in connections[name].pieces())
            if (status, received) != (200, size):
                raise RuntimeError(f"{name}: {status}, {received} bytes")

        yield {name: lambda name=name: timed(lambda: get(name)) for name in paths}


@contextlib.contextmanager
def _servers(engine: EngineClient) -> Generator[tuple[str, dict[str, str], int]]:
    """The Jupyter server's address, the path to each program, and its process."""
    _install()
    with engine.sandbox() as sandbox, tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text(PROGRAM)
        with contextlib.closing(RawConnection(engine.url)) as connection:
            headers = {**engine.headers(sandbox), "content-type": "application/octet-stream"}
            path = "/files?path=/tmp/program.py"
            status, answer = connection.request("POST", path, headers, PROGRAM.encode())
            if status != 200:
                raise RuntimeError(f"{status} {answer!r}")
        message = {"process": {"cmd": "/usr/bin/python3", "args": ["/tmp/program.py", str(PORT)]}}
        beside, server_port = free_ports()
        with (
            engine.stream(sandbox, "process.Process/Start", message) as events,
            _process(sys.executable, str(script), str(beside), port=beside),
            _jupyter(engine, server_port, folder) as server,
        ):
            next(events)
            ours = f"/sbx/port/{sandbox['sandboxID']}/{PORT}"
            yield (
                f"http://127.0.0.1:{server_port}",
                {OURS: ours, THEIRS: f"/proxy/{beside}"},
                server,
            )


def _jupyter(
    engine: EngineClient, port: int, folder: str
) -> contextlib.AbstractContextManager[int]:
    key = engine.environment()["E2B_API_KEY"]
    address = urlsplit(engine.url).geturl()
    return _process(
        *(str(FOLDER / "bin/python"), "-m", "jupyter_server", "--no-browser", "--allow-root"),
        *(f"--port={port}", "--port-retries=0", f"--IdentityProvider.token={TOKEN}"),
        "--ServerApp.jpserver_extensions={'sbx_jupyter': True, 'jupyter_server_proxy': True}",
        *(f"--ServerApp.root_dir={folder}", f"--SbxExtension.api_url={address}"),
        *(f"--SbxExtension.sandbox_url={address}", f"--SbxExtension.api_key={key}"),
        port=port,
    )


@contextlib.contextmanager
def _process(*command: str, port: int) -> Generator[int]:
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: is_open(port), START_SECONDS, f"{command[0]} does not listen")
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _install() -> None:
    """Install the peer beside the packages of the checkout, once."""
    if (FOLDER / "installed").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], check=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(FOLDER)}))
    own.joinpath("checkout.pth").write_text(f"{CHECKOUT}\n{sysconfig.get_path('purelib')}\n")
    python = str(FOLDER / "bin/python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", THEIRS], check=True)
    (FOLDER / "installed").touch()
