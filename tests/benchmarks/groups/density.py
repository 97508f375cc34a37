"""Many idle sandboxes: memory, processor time, restart of the engine; and many streams."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from sbx_jupyter.protocol import connect
from tests.benchmarks.contests import MEGABYTES, MILLISECONDS, OURS, PERCENT, Contestants, Row
from tests.benchmarks.cycles import processes_below
from tests.benchmarks.goals import at_most, late_at_most
from tests.benchmarks.harness import first_output, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import EngineClient, OwnEngine

MANY: Final = 1000
STREAMS: Final = 100
RUNNING: Final = "one that runs"
AT_ONCE: Final = 16
_IDLE_SECONDS: Final = 30.0
_SETTLE: Final = 3.0
_AFTERMATH: Final = 60.0
"""Seconds in which an engine counts the files of sandboxes whose last programs have ended, and
forgets these programs."""
_LINES: Final = "exec 3<> <(:); while :; do echo 0123456789; read -t 0.05 -u 3; done"
"""Waits without a process of its own for each wait."""


_READER: Final = """
import json, selectors, socket, sys
requests = json.load(sys.stdin)
selector = selectors.DefaultSelector()
for host, port, request in requests:
    connection = socket.create_connection((host, port))
    connection.sendall(request.encode("latin-1"))
    connection.setblocking(False)
    selector.register(connection, selectors.EVENT_READ)
heard = set()
while True:
    for key, _ in selector.select():
        if not key.fileobj.recv(1 << 16):
            sys.exit("a stream has ended")
        heard.add(key.fd)
        if len(heard) == len(requests):
            heard.clear()
            print("all", flush=True)
"""
"""Reads all streams in a process of its own, so that it does not slow down the one that asks."""


class _Crowd:
    """The sandboxes of one engine, which the rows of this group share."""

    def __init__(self) -> None:
        self._made: dict[EngineClient, list[dict[str, Any]]] = {}

    def of(self, engine: EngineClient, count: int) -> list[dict[str, Any]]:
        """Sandboxes of the engine, at least ``count``; each has run a program."""
        made = self._made.setdefault(engine, [])
        with ThreadPoolExecutor(AT_ONCE) as threads:
            made += threads.map(lambda _: self._use(engine), range(count - len(made)))
        return made

    def _use(self, engine: EngineClient) -> dict[str, Any]:
        sandbox = engine.create()
        first_output(engine, sandbox)
        return sandbox


_CROWD: Final = _Crowd()


@contextlib.contextmanager
def _crowd(
    engine: EngineClient,
    count: int,
    measured: Callable[[EngineClient], float],
    settle: float = _SETTLE,
) -> Iterator[Contestants]:
    _CROWD.of(engine, count)
    time.sleep(settle)
    yield {OURS: lambda: measured(engine)}


def memory_of(engine: EngineClient) -> float:
    """The bytes that the engine and all below it take, shared ones divided among who share."""
    return float(sum(_pss(pid) for pid in (engine.pid, *processes_below(engine.pid))))


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _processor_time(engine: EngineClient) -> float:
    """The share of one processor that the engine and all below it take while nobody asks."""
    before = _cpu_seconds(engine.pid)
    time.sleep(_IDLE_SECONDS)
    return (_cpu_seconds(engine.pid) - before) / _IDLE_SECONDS


def _cpu_seconds(pid: int) -> float:
    ticks = 0
    for each in (pid, *processes_below(pid)):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _restart(engine: EngineClient) -> float:
    """Kill the engine and start it again, until it answers and has all of its sandboxes."""
    count = len(_CROWD.of(engine, 0))
    taken = timed(cast("OwnEngine", engine).restart)
    found = engine.platform("GET", "/engine/info")["sandboxes"]
    if found < count:
        raise RuntimeError(f"{found} of {count} sandboxes after the restart")
    return taken


@contextlib.contextmanager
def _wakes(engine: EngineClient) -> Iterator[Contestants]:
    with engine.sandbox(autoPause=True, autoResume={"enabled": True}) as sandbox:
        path = f"/sandboxes/{sandbox['sandboxID']}/pause"

        def ask() -> None:
            engine.unary(sandbox, "filesystem.Filesystem/Stat", {"path": "/"})

        def wake() -> float:
            engine.platform("POST", path, {})
            return timed(ask)

        def running() -> float:
            ask()
            return timed(ask)

        yield {OURS: wake, RUNNING: running}


@contextlib.contextmanager
def _answers(engine: EngineClient) -> Iterator[Contestants]:
    """How long a request waits that the engine answers at once, while it serves streams."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        sandboxes = list(threads.map(lambda _: engine.create(), range(STREAMS)))
        try:
            with _reading(engine, sandboxes) as reader:

                def ask() -> float:
                    if reader.poll() is not None:
                        raise RuntimeError("a stream has ended")
                    time.sleep(0.002)
                    return timed(lambda: engine.platform("GET", "/health"))

                yield {OURS: ask}
        finally:
            list(threads.map(engine.kill, sandboxes))


@contextlib.contextmanager
def _reading(
    engine: EngineClient, sandboxes: list[dict[str, Any]]
) -> Iterator[subprocess.Popen[str]]:
    """A process that reads a stream of each sandbox, each of which has sent something."""
    with subprocess.Popen(
        [sys.executable, "-c", _READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        try:
            json.dump([_request(engine, sandbox) for sandbox in sandboxes], reader.stdin)
            reader.stdin.close()
            if not reader.stdout.readline():
                raise RuntimeError("the streams have ended")
            yield reader
        finally:
            reader.kill()


def _request(engine: EngineClient, sandbox: dict[str, Any]) -> tuple[str, int, str]:
    """Where to send a request that starts a program with twenty lines a second, and its text."""
    message = {"process": {"cmd": "/bin/bash", "args": ["-c", _LINES]}, "stdin": False}
    content = connect.encode_envelope(json.dumps(message).encode())
    parts = urlsplit(engine.url)
    lines = [
        "POST /process.Process/Start HTTP/1.1",
        *(f"Host: {parts.netloc}", f"Content-Length: {len(content)}"),
        f"Content-Type: {connect.STREAM_CONTENT_TYPE}",
        *(f"{name}: {value}" for name, value in engine.headers(sandbox).items()),
    ]
    text = "\r\n".join(lines) + "\r\n\r\n" + content.decode("latin-1")
    return str(parts.hostname), int(parts.port or 0), text


_MEMORY: Final = (
    "each sandbox has an agent, a process of Python that shares what the zygote has loaded until"
    " it writes to it"
)

ROWS: Final = (
    Row(
        f"Answer a request while {STREAMS} streams run",
        1000,
        _answers,
        (late_at_most(0.02, "20 ms"),),
        "20 lines a second from each stream, and the reader of the streams, share the processors"
        " with the engine",
    ),
    Row("Wake a paused sandbox by a request", 40, _wakes, (at_most(0.005, "5 ms"),)),
    Row(
        "Memory of an engine with 100 idle sandboxes",
        1,
        lambda engine: _crowd(engine, 100, memory_of),
        unit=MEGABYTES,
        warm_up=0,
    ),
    Row(
        f"Memory of an engine with {MANY:,} idle sandboxes",
        1,
        lambda engine: _crowd(engine, MANY, memory_of),
        (at_most(2e9, "2,000 MB"),),
        _MEMORY,
        unit=MEGABYTES,
        warm_up=0,
    ),
    Row(
        f"Processor time of {MANY:,} idle sandboxes, of one core",
        2,
        lambda engine: _crowd(engine, MANY, _processor_time, _AFTERMATH),
        (at_most(0.01, "1 %"),),
        "the engine reads one counter a second for all sandboxes, and repeats the last reading of"
        " each every five seconds",
        unit=PERCENT,
        warm_up=0,
    ),
    Row(
        f"Restart an engine with {MANY:,} sandboxes",
        2,
        lambda engine: _crowd(engine, MANY, _restart),
        (at_most(3.0, "3 s"),),
        "the engine starts Python, checks its store, and adopts each sandbox",
        unit=MILLISECONDS,
        warm_up=0,
    ),
)
