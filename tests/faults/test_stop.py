"""An engine that is told to end does so within seconds, whatever runs in it."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx

from sbx_jupyter.protocol import access, connect
from tests.faults.world import World
from tests.waiting import Busyness, until

LONGEST = 10.0
"""Seconds that the end may take, besides what the machine's other work costs."""

FILES = 6000
"""Enough that copies run, and wait for each other, when the engine is told to end."""

COPIES = 12


def test_an_engine_ends_within_seconds_whatever_runs(world: World):
    others = Busyness()  # before this test keeps the machine busy itself
    with contextlib.ExitStack() as stack:
        busy = world.create()
        world.run(busy, f"mkdir d && cd d && seq {FILES} | split -l 1 -a 4")
        for start in (start_stubborn_streams, start_stalled_transfers, start_build, start_copies):
            stack.enter_context(start(world, busy))
        process = world.engine.process
        assert process is not None

        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        status = process.wait(150)
        took = time.monotonic() - began

    print(f"the engine ended in {took:.2f} s")
    log = world.engine.log.read_text()
    assert status == 0, log
    assert "Traceback" not in log, log
    assert took < LONGEST * others.most()
    world.client.close()
    world.start()
    world.kill_all(keep=set())
    world.ask("DELETE", "/templates/stopped")
    world.assert_no_leak()


@contextlib.contextmanager
def start_stubborn_streams(world: World, sandbox_id: str) -> Iterator[None]:
    """Programs that ignore signals and print without end, to clients that do not read."""
    scripts = ("trap '' TERM HUP INT; yes", "trap '' TERM HUP INT; sleep 1000")
    messages: list[tuple[str, dict[str, Any]]] = [
        ("process.Process/Start", {"process": {"cmd": "/bin/bash", "args": ["-c", script]}})
        for script in scripts
    ]
    messages.append(("filesystem.Filesystem/WatchDir", {"path": "/tmp", "recursive": True}))
    with contextlib.ExitStack() as stack:
        for method, message in messages:
            content = connect.encode_envelope(json.dumps(message).encode())
            head = {"Content-Type": connect.STREAM_CONTENT_TYPE, "Content-Length": len(content)}
            opened = stack.enter_context(open_request(world, sandbox_id, f"/{method}", head))
            opened.sendall(content)
            assert opened.recv(64).startswith(b"HTTP/1.1 200")
        yield


@contextlib.contextmanager
def start_stalled_transfers(world: World, sandbox_id: str) -> Iterator[None]:
    """An upload that gets no further, and a download whose client does not read."""
    world.run(sandbox_id, "truncate -s 1G /tmp/large")
    with contextlib.ExitStack() as stack:
        head = {"Content-Type": "application/octet-stream", "Content-Length": 1 << 30}
        upload = open_request(world, sandbox_id, "/files?path=/tmp/stalled", head)
        stack.enter_context(upload).sendall(b"x" * 100_000)
        download = open_request(world, sandbox_id, "/files?path=/tmp/large", {}, "GET")
        assert stack.enter_context(download).recv(64).startswith(b"HTTP/1.1 200")
        yield


@contextlib.contextmanager
def start_build(world: World, sandbox_id: str) -> Iterator[None]:
    """A build in whose step a program ignores signals."""
    asked = world.ask("POST", "/v3/templates", {"name": "stopped"}).json()
    path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}"
    steps = [{"type": "RUN", "args": ["trap '' TERM HUP INT; echo began; sleep 1000"]}]
    started = world.ask("POST", f"/v2{path}", {"fromTemplate": "base", "steps": steps})
    assert started.status_code == 202, started.text
    until(lambda: "began" in world.ask("GET", f"{path}/status").text)
    yield


@contextlib.contextmanager
def start_copies(world: World, sandbox_id: str) -> Iterator[None]:
    """Many snapshots, forks and a pause of one sandbox at once; most of them wait."""
    path = f"/sandboxes/{sandbox_id}"
    asks: list[Callable[[], Any]] = [
        *[partial(world.ask, "POST", f"{path}/snapshots", {}) for _ in range(COPIES)],
        *[partial(world.ask, "POST", f"{path}/fork", {"count": 3}) for _ in range(COPIES)],
        partial(world.ask, "POST", f"{path}/pause", {"memory": False}),
    ]
    threads = [threading.Thread(target=_ask, args=(ask,)) for ask in asks]
    for thread in threads:
        thread.start()
    until(lambda: world.ask("GET", f"/engine{path}/operations").json())
    yield
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def _ask(ask: Callable[[], httpx.Response]) -> None:
    with contextlib.suppress(httpx.TransportError):  # a connection that the end cut
        assert ask().status_code in (201, 204, 409, 503)


@contextlib.contextmanager
def open_request(
    world: World, sandbox_id: str, target: str, head: dict[str, Any], method: str = "POST"
) -> Iterator[socket.socket]:
    """A connection with the head of a request to a sandbox."""
    headers = {
        "Host": "localhost",
        access.SANDBOX_ID_HEADER: sandbox_id,
        access.SANDBOX_PORT_HEADER: "49983",
        access.ACCESS_TOKEN_HEADER: world.sandboxes[sandbox_id]["envdAccessToken"],
        **head,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", world.engine.port), timeout=30) as opened:
        opened.sendall(f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode())
        yield opened
