"""The rows of the comparison with other ways to do the same on one machine."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tornado.websocket

from sbx_jupyter.protocol import connect
from tests.benchmarks import echo, listing, transfer
from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.create import first_output
from tests.benchmarks.harness import RawConnection, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import EngineClient

PAUSE: Final = 0.1
"""Seconds in which the pool of ready sandboxes fills up again, as between two clicks of a user."""

STARTERS: Final[dict[str, list[str]]] = {
    "bwrap": ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "/bin/true"],
    "unshare": [
        *("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--net"),
        *("--ipc", "--uts", "--cgroup", "/bin/true"),
    ],
}
"""Programs that start ``/bin/true`` in namespaces of its own, and nothing more."""

_COMMAND: Final = ["/bin/echo", "hi"]


def not_installed() -> list[str]:
    """The peers that this machine does not have."""
    return [name for name in STARTERS if shutil.which(name) is None]


@contextlib.contextmanager
def _starts(engine: EngineClient, *, to_output: bool) -> Iterator[Contestants]:
    def create() -> float:
        time.sleep(PAUSE)
        started = time.perf_counter()
        sandbox = engine.create()
        if to_output:
            first_output(engine, sandbox)
        taken = time.perf_counter() - started
        engine.kill(sandbox)
        return taken

    def start(command: list[str]) -> Callable[[], float]:
        return lambda: timed(lambda: subprocess.run(command, check=True))

    found = {name: command for name, command in STARTERS.items() if shutil.which(name)}
    yield {OURS: create, **{name: start(command) for name, command in found.items()}}


@contextlib.contextmanager
def _executions(engine: EngineClient) -> Iterator[Contestants]:
    """A program in a running sandbox, from the request to the end of the answer."""
    message = {"process": {"cmd": _COMMAND[0], "args": _COMMAND[1:]}, "stdin": False}
    content = connect.encode_envelope(json.dumps(message).encode())
    with engine.sandbox() as sandbox:
        headers = {**engine.headers(sandbox), "content-type": connect.STREAM_CONTENT_TYPE}
        with contextlib.closing(RawConnection(engine.url)) as connection:

            def execute() -> None:
                status, body = connection.request(
                    "POST", "/process.Process/Start", headers, content
                )
                if status != 200 or b'"stdout"' not in body:
                    raise RuntimeError(f"{status} {body[:200]!r}")

            def plain() -> None:
                if subprocess.run(_COMMAND, capture_output=True, check=True).stdout != b"hi\n":
                    raise RuntimeError("no output")

            yield {OURS: lambda: timed(execute), "subprocess": lambda: timed(plain)}


@contextlib.contextmanager
def _requests(engine: EngineClient) -> Iterator[Contestants]:
    with (
        tempfile.TemporaryDirectory() as folder,
        transfer.static_server(folder) as url,
        contextlib.closing(RawConnection(url)) as theirs,
    ):

        def nothing() -> None:
            if theirs.request("GET", "/health", {})[0] != 204:
                raise RuntimeError("no answer")

        yield {
            OURS: lambda: timed(lambda: engine.platform("GET", "/health")),
            "tornado": lambda: timed(nothing),
        }


@contextlib.contextmanager
def _listings(engine: EngineClient) -> Iterator[Contestants]:
    with engine.sandbox() as sandbox, tempfile.TemporaryDirectory() as folder:
        for index in range(listing.FILES):
            Path(folder, f"file-{index:05}").touch()
        script = f"mkdir -p many && cd many && seq -f file-%05g 0 {listing.FILES - 1} | xargs touch"
        message = {"process": {"cmd": "/bin/bash", "args": ["-c", script]}}
        with engine.stream(sandbox, "process.Process/Start", message) as events:
            list(events)
        yield {
            OURS: lambda: timed(lambda: listing.list_many(engine, sandbox)),
            "scandir and stat": lambda: timed(lambda: [e.stat() for e in os.scandir(folder)]),
        }


@contextlib.contextmanager
def _echoes(engine: EngineClient, *, streamed: bool) -> Iterator[Contestants]:
    message = {"process": {"cmd": "/bin/cat"}, "pty": {"size": {"cols": 80, "rows": 24}}}
    with (
        engine.sandbox() as sandbox,
        engine.stream(sandbox, "process.Process/Start", message) as events,
        contextlib.closing(RawConnection(engine.url)) as upload,
        _terminado() as theirs,
    ):
        process = {"pid": json.loads(next(events)[1])["event"]["start"]["pid"]}
        key = {"process": process, "input": {"pty": base64.b64encode(b"x").decode()}}
        data = echo.chunk({"data": {"input": key["input"]}})
        if streamed:
            headers = {
                **engine.headers(sandbox),
                "content-type": connect.STREAM_CONTENT_TYPE,
                "transfer-encoding": "chunked",
            }
            upload.send_head("POST", "/process.Process/StreamInput", headers, None)
            upload.socket.sendall(echo.chunk({"start": {"process": process}}))

        def press() -> None:
            if streamed:
                upload.socket.sendall(data)
            else:
                engine.unary(sandbox, "process.Process/SendInput", key)
            next(events)

        yield {OURS: lambda: timed(press), "terminado": theirs}


@contextlib.contextmanager
def _terminado() -> Iterator[Callable[[], float]]:
    """The server of Jupyter's terminals, with a key pressed over its websocket."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        script = Path(folder, "server.py")
        script.write_text(echo.TERMINADO)
        server = subprocess.Popen([sys.executable, str(script), str(echo.PORT)])
        try:
            transfer.wait_for_port(echo.PORT)
            url = f"ws://127.0.0.1:{echo.PORT}/ws"
            connection = runner.run(_connected(url))

            async def press() -> float:
                started = time.perf_counter()
                await connection.write_message(json.dumps(["stdin", "x"]))
                await connection.read_message()
                return time.perf_counter() - started

            yield lambda: runner.run(press())
        finally:
            server.terminate()
            server.wait(10)


async def _connected(url: str) -> Any:
    connection = await tornado.websocket.websocket_connect(url)
    await connection.read_message()
    return connection


@contextlib.contextmanager
def _transfers(engine: EngineClient, *, up: bool) -> Iterator[Contestants]:
    path = "/files?path=big"
    with (
        engine.sandbox() as sandbox,
        tempfile.TemporaryDirectory() as folder,
        transfer.static_server(folder) as static,
    ):
        headers = {**engine.headers(sandbox), "accept-encoding": "identity"}
        sent = {**headers, "content-type": "application/octet-stream"}

        def ours_up() -> float:
            return timed(lambda: transfer.upload(engine.url, path, sent))

        def theirs_up() -> float:
            return timed(lambda: transfer.upload(static, "/put", {}, "PUT"))

        if up:
            yield {OURS: ours_up, "tornado": theirs_up}
            return
        ours_up()
        theirs_up()
        yield {
            OURS: lambda: timed(lambda: transfer.download(engine.url, path, headers)),
            "tornado": lambda: timed(lambda: transfer.download(static, "/upload", {})),
        }


ROWS: Final = (
    Row("Create a sandbox", "1.0", 50, lambda engine: _starts(engine, to_output=False)),
    Row(
        "Create a sandbox and get a program's output",
        "1.0",
        50,
        lambda engine: _starts(engine, to_output=True),
    ),
    Row("Run a program in a running sandbox", "0.5 ms more", 300, _executions),
    Row("Answer a request with nothing", "1.0", 500, _requests),
    Row("List 20,000 files", "2.0", 10, _listings),
    Row("Echo of a key, a request per key", "1.0", 300, lambda e: _echoes(e, streamed=False)),
    Row("Echo of a key, one stream", "1.0", 300, lambda e: _echoes(e, streamed=True)),
    Row("Upload 1 GiB", "1.0", 3, lambda engine: _transfers(engine, up=True)),
    Row("Download 1 GiB", "1.0", 5, lambda engine: _transfers(engine, up=False)),
)
