"""Sockets where a sandbox has no network namespace: the keeper answers the calls that name one."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
from base64 import b64decode
from typing import TYPE_CHECKING, Final

from tests.benchmarks.contests import MICROSECONDS, MILLISECONDS, OURS, Contestants, Row
from tests.benchmarks.harness import EngineClient
from tests.tiers.engines import engine_process_of
from tests.tiers.rows import LANDLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

MACHINE: Final = "the machine's loopback"
_PYTHON: Final = "/usr/bin/python3"
_SCRIPT: Final = """
import socket, sys, threading, time

def make(count):
    for _ in range(count):
        socket.socket().close()

def connect(count):
    for _ in range(count):
        client = socket.create_connection(address)
        server = listener.accept()[0]
        client.close()
        server.close()

def echo(count):
    client = socket.create_connection(address)
    server = listener.accept()[0]
    for _ in range(count):
        client.sendall(b"x" * 64)
        server.sendall(server.recv(64))
        client.recv(64)

def send(count):
    client = socket.create_connection(address)
    server = listener.accept()[0]
    piece = bytes(1 << 20)
    sender = threading.Thread(target=lambda: [client.sendall(piece) for _ in range(count)])
    sender.start()
    buffer, left = bytearray(1 << 20), count << 20
    while left:
        left -= server.recv_into(buffer)
    sender.join()

listener = socket.create_server(("127.0.0.1", 0))
address = listener.getsockname()
work, count = globals()[sys.argv[1]], int(sys.argv[2])
started = time.perf_counter()
work(count)
print(time.perf_counter() - started)
"""


@contextlib.contextmanager
def engine_without_namespaces(*options: str) -> Iterator[EngineClient]:
    """An engine of an ordinary user, whose sandboxes Landlock and a keeper isolate."""
    with engine_process_of(LANDLOCK, *options) as engine:
        client = EngineClient(engine.url, engine.key, engine.pid)
        try:
            yield client
        finally:
            client.close()


def unavailable() -> str:
    """Why this machine cannot measure it; empty if it can."""
    return "" if os.geteuid() == 0 else "needs root, to become an ordinary user"


@contextlib.contextmanager
def _loops(engine: EngineClient, work: str, count: int, *, share: int) -> Iterator[Contestants]:
    """``share`` divides the time of ``count`` rounds of the work."""
    arguments = ["-I", "-c", _SCRIPT, work, str(count)]
    with engine.sandbox() as sandbox:
        yield {
            OURS: lambda: float(_printed(engine, sandbox, arguments)) / share,
            MACHINE: lambda: float(subprocess.check_output([_PYTHON, *arguments])) / share,
        }


def _printed(engine: EngineClient, sandbox: dict[str, str], arguments: list[str]) -> bytes:
    """What the program prints in a sandbox; raises ``RuntimeError`` if it prints nothing."""
    message = {"process": {"cmd": _PYTHON, "args": arguments}, "stdin": False}
    with engine.stream(sandbox, "process.Process/Start", message) as events:
        payloads = [json.loads(payload) for _, payload in events]
    data = [each.get("event", {}).get("data", {}) for each in payloads]
    printed = b"".join(b64decode(each.get("stdout", "")) for each in data)
    if not printed:
        raise RuntimeError(f"the program printed nothing: {payloads[-2:]!r}")
    return printed


def _of_each(name: str, work: str, count: int) -> Row:
    return Row(
        name,
        30,
        functools.partial(_loops, work=work, count=count, share=count),
        unit=MICROSECONDS,
        warm_up=2,
        unavailable=unavailable,
    )


ROWS: Final = (
    _of_each("Make a socket and close it", "make", 1000),
    _of_each("Connect to a server, accept, and close both ends", "connect", 300),
    _of_each("Send 64 bytes and get them back", "echo", 1000),
    Row(
        "Send 512 MiB",
        10,
        functools.partial(_loops, work="send", count=512, share=1),
        unit=MILLISECONDS,
        warm_up=1,
        unavailable=unavailable,
    ),
)
