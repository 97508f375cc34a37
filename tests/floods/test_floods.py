"""Gigabytes through the proxy of ports, and a terminal that never stops: the memory stays flat."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from sbx_jupyter.client import ConnectionConfig, Sandbox
from tests.benchmarks.harness import RawConnection, resident_bytes
from tests.browser.server import BASE_URL, TOKEN, JupyterServer, jupyter_server
from tests.engine_process import EngineProcess, engine_process
from tests.server.ports.programs import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(1800)

SIZE = int(float(os.environ.get("SBX_FLOOD_GB", "5")) * (1 << 30))
SECONDS = float(os.environ.get("SBX_FLOOD_SECONDS", "60"))
CHUNK = bytes(1 << 20)
MB = 1 << 20
GROWTH_MB = 48
"""By how much a server may grow: its buffers for one connection, and what Python keeps."""
AUTHORIZATION = {"Authorization": f"token {TOKEN}"}


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    with engine_process("floods") as running:
        yield running


@pytest.fixture(scope="module")
def server(engine: EngineProcess) -> Iterator[JupyterServer]:
    home = Path(tempfile.mkdtemp(prefix="sbx-lab-", dir="/tmp"))
    try:
        with jupyter_server(home, engine.data_dir) as running:
            yield running
    finally:
        shutil.rmtree(home)


@pytest.fixture(scope="module")
def port(engine: EngineProcess, server: JupyterServer) -> Iterator[str]:
    """The path to a port of a sandbox where the program of the ports' tests runs."""
    config = ConnectionConfig.from_connection_file(engine.connection)
    with Sandbox.create(timeout=3600, config=config) as sandbox:
        sandbox.files.write("/tmp/program.py", PROGRAM.read_text())
        sandbox.commands.run("exec python3 /tmp/program.py 8000", background=True, timeout=None)
        yield f"{BASE_URL}sbx/port/{sandbox.sandbox_id}/8000/"


class Memory:
    """The most that the processes held while it watched, beyond what they held at the start."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._first = {name: resident_bytes(pid) for name, pid in pids.items()}
        self._most = dict(self._first)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            for name, pid in self._pids.items():
                self._most[name] = max(self._most[name], resident_bytes(pid))

    def grown_mb(self) -> dict[str, float]:
        return {
            name: round((most - self._first[name]) / MB, 1) for name, most in self._most.items()
        }


@pytest.fixture
def memory(server: JupyterServer, engine: EngineProcess, port: str) -> Memory:
    with contextlib.closing(RawConnection(server.url)) as connection:
        connection.request("GET", f"{port}x", AUTHORIZATION)
    return Memory({"Jupyter server": server.process.pid, "engine": engine.pid})


def report(what: str, size: int, seconds: float, memory: Memory) -> None:
    print(
        f"{what}: {size / 1e9:.1f} GB, {size / seconds / 1e6:.0f} MB/s, grown: {memory.grown_mb()}"
    )
    assert max(memory.grown_mb().values()) < GROWTH_MB, memory.grown_mb()


def test_a_download_keeps_the_memory_flat(server: JupyterServer, port: str, memory: Memory) -> None:
    started = time.perf_counter()
    with memory, contextlib.closing(RawConnection(server.url)) as connection:
        connection.send_head("GET", f"{port}big?{SIZE}", AUTHORIZATION, 0)
        assert connection.read_head() == 200
        assert sum(len(piece) for piece in connection.pieces()) == SIZE
    report("Download", SIZE, time.perf_counter() - started, memory)


def test_an_upload_keeps_the_memory_flat(server: JupyterServer, port: str, memory: Memory) -> None:
    size = SIZE // len(CHUNK) * len(CHUNK)
    started = time.perf_counter()
    with memory, contextlib.closing(RawConnection(server.url)) as connection:
        connection.send_head("PUT", f"{port}up", AUTHORIZATION, size)
        for _ in range(size // len(CHUNK)):
            connection.socket.sendall(CHUNK)
        assert connection.read_head() == 200
        assert json.loads(b"".join(connection.pieces()))["size"] == size
    report("Upload", size, time.perf_counter() - started, memory)


def test_a_slow_reader_keeps_the_memory_flat(
    server: JupyterServer, port: str, memory: Memory
) -> None:
    """It reads nothing until the server reads no more from the sandbox either."""
    with memory, contextlib.closing(RawConnection(server.url)) as connection:
        connection.send_head("GET", f"{port}big?{1 << 30}", AUTHORIZATION, 0)
        assert connection.read_head() == 200
        time.sleep(3)
        assert sum(len(piece) for piece in connection.pieces()) == 1 << 30
    report("Slow reader", 1 << 30, 3, memory)


def test_a_terminal_that_floods_keeps_the_memory_flat(
    server: JupyterServer, port: str, memory: Memory
) -> None:
    """The reader acknowledges what it has, as the page does."""
    sandbox_id = port.split("/")[-3]

    async def read() -> int:
        url = f"{server.url}sbx/api/sandboxes/{sandbox_id}/terminal".replace("http", "ws", 1)
        socket = await websocket_connect(HTTPRequest(url, headers=AUTHORIZATION))
        await socket.read_message()
        await socket.write_message(b"yes flood\n", binary=True)
        size, end = 0, time.monotonic() + SECONDS
        while time.monotonic() < end:
            message = await socket.read_message()
            assert message is not None
            size += len(message) if isinstance(message, bytes) else 0
            await socket.write_message(json.dumps({"ack": size}))
        socket.close()
        return size

    with memory:
        size = asyncio.run(read())
    assert size > 0
    report("Terminal", size, SECONDS, memory)
