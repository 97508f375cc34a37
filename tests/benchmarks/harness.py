"""Starts an engine to measure, sends it HTTP requests on bare sockets, and prints figures."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sbx_jupyter.protocol import access, connect
from tests.benchmarks.goals import percentile
from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_MOST_SANDBOXES = 250


class RawConnection:
    """One kept-alive HTTP connection on a bare socket.

    An HTTP client library would add about a millisecond to each request, and reads streams at a
    third of the speed of a socket.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host = f"{parts.hostname}:{parts.port}"
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=300)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._size = -1

    def close(self) -> None:
        self.socket.close()

    def request(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, bytes]:
        """Send a request; returns the status and the body of the answer."""
        self.send_head(method, path, headers, len(body), body)
        status = self.read_head()
        return status, b"".join(self.pieces())

    def send_head(
        self, method: str, path: str, headers: dict[str, str], size: int | None, start: bytes = b""
    ) -> None:
        """Send the head and the beginning of the body; ``size`` is ``None`` for a chunked one."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}"]
        if size is not None:
            lines.append(f"Content-Length: {size}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + start)

    def read_head(self) -> int:
        """Read the head of the answer and return its status; ``pieces`` reads the body."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._fill()
        head = bytes(self._buffer[:end]).decode("latin-1").lower().split("\r\n")
        del self._buffer[: end + 4]
        fields = dict(line.split(": ", 1) for line in head[1:])
        self._size = -1 if "transfer-encoding" in fields else int(fields.get("content-length", 0))
        return int(head[0].split()[1])

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in pieces as it arrives; for a chunked body, its chunks."""
        left = self._size
        while left > 0:
            if not self._buffer:
                self._fill(left)
            piece = bytes(self._buffer[:left])
            del self._buffer[: len(piece)]
            left -= len(piece)
            yield piece
        while left < 0:
            while (end := self._buffer.find(b"\r\n")) < 0:
                self._fill()
            size = int(self._buffer[:end], 16)
            while len(self._buffer) < end + size + 4:
                self._fill()
            piece = bytes(memoryview(self._buffer)[end + 2 : end + 2 + size])
            del self._buffer[: end + size + 4]
            if not size:
                return
            yield piece

    @property
    def buffered(self) -> int:
        """How many bytes of the body arrived with the head."""
        return len(self._buffer)

    def _fill(self, size: int = 1 << 20) -> None:
        piece = self.socket.recv(min(size, 1 << 18))
        if not piece:
            raise RuntimeError("the connection was closed")
        self._buffer += piece


class EngineClient:
    """Calls the engine's HTTP APIs with little overhead; one connection per thread."""

    def __init__(self, url: str, api_key: str, pid: int) -> None:
        self.found_at(url, api_key, pid)

    def found_at(self, url: str, api_key: str, pid: int) -> None:
        """Use another address, as after a restart, on new connections."""
        self.url = url
        self.pid = pid
        self._key = {access.API_KEY_HEADER: api_key}
        self._threads = threading.local()

    def environment(self) -> dict[str, str]:
        """The variables with which other programs find this engine."""
        key = self._key[access.API_KEY_HEADER]
        return {"E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url, "E2B_API_KEY": key}

    @property
    def _connection(self) -> RawConnection:
        """The connection of this thread."""
        if not hasattr(self._threads, "connection"):
            self._threads.connection = RawConnection(self.url)
        return self._threads.connection

    def close(self) -> None:
        """Close the connection of this thread."""
        self._connection.close()

    def platform(self, method: str, path: str, message: Any = None) -> Any:
        """Send a request to the platform API; raises ``RuntimeError`` for an error status."""
        body = b"" if message is None else json.dumps(message).encode()
        status, answer = self._connection.request(method, path, self._key, body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {answer[:200]!r}")
        return json.loads(answer) if answer else None

    def create(self, **fields: Any) -> dict[str, Any]:
        body = {"templateID": "base", "timeout": 3600, **fields}
        return self.platform("POST", "/v2/sandboxes", body)

    def kill(self, sandbox: dict[str, Any]) -> None:
        self.platform("DELETE", f"/sandboxes/{sandbox['sandboxID']}")

    @contextlib.contextmanager
    def sandbox(self, **fields: Any) -> Iterator[dict[str, Any]]:
        """A sandbox that is killed at the end."""
        sandbox = self.create(**fields)
        try:
            yield sandbox
        finally:
            self.kill(sandbox)

    def headers(self, sandbox: dict[str, Any]) -> dict[str, str]:
        return {
            access.SANDBOX_ID_HEADER: sandbox["sandboxID"],
            access.SANDBOX_PORT_HEADER: "49983",
            access.ACCESS_TOKEN_HEADER: sandbox["envdAccessToken"],
        }

    def unary(self, sandbox: dict[str, Any], method: str, message: dict[str, Any]) -> bytes:
        """Call a unary method; returns the answer undecoded."""
        headers = {**self.headers(sandbox), "content-type": connect.UNARY_CONTENT_TYPE}
        body = json.dumps(message).encode()
        status, answer = self._connection.request("POST", f"/{method}", headers, body)
        if status != 200:
            raise RuntimeError(f"{method}: {status} {answer[:200]!r}")
        return answer

    @contextlib.contextmanager
    def stream(
        self, sandbox: dict[str, Any], method: str, message: dict[str, Any]
    ) -> Iterator[Iterator[tuple[int, bytes]]]:
        """Open a server stream on a new connection; yields an iterator of its envelopes."""
        headers = {**self.headers(sandbox), "content-type": connect.STREAM_CONTENT_TYPE}
        content = connect.encode_envelope(json.dumps(message).encode())
        connection = RawConnection(self.url)
        try:
            connection.send_head("POST", f"/{method}", headers, len(content), content)
            if (status := connection.read_head()) != 200:
                raise RuntimeError(f"{method}: {status}")
            decoder = connect.EnvelopeDecoder()
            yield (item for chunk in connection.pieces() for item in decoder.feed(chunk))
        finally:
            connection.close()


def most_sandboxes(count: int = _MOST_SANDBOXES) -> str:
    """The option with which an engine lets ``count`` sandboxes exist at once."""
    return f"--SbxEngine.max_sandboxes={count}"


class OwnEngine(EngineClient):
    """An engine on a temporary data directory that a benchmark starts, and may start again."""

    def __init__(self, folder: str, options: Sequence[str], checkout: Path) -> None:
        self._connection_file = Path(folder, "engine.json")
        self.data_dir = Path(folder, "data")
        self._checkout = checkout
        # -P leaves out the working directory, so that another checkout is not hidden by this one.
        self._command = (
            *(sys.executable, "-P", "-m", "sbx_jupyter.cli.main", "engine", "--port", "0"),
            *("--data-dir", str(self.data_dir), "--connection-file", str(self._connection_file)),
            *(options or (most_sandboxes(),)),
        )
        self._process = self._launch()
        super().__init__(*self._when_ready())

    def restart(self) -> None:
        """Kill the engine as a crash would, start it again, and return once it answers."""
        self._process.kill()
        self._process.wait()
        self._connection_file.unlink()
        self._process = self._launch()
        self.found_at(*self._when_ready())

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def _launch(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=os.environ | {"PYTHONPATH": str(self._checkout)})

    def _when_ready(self) -> tuple[str, str, int]:
        """Wait for its address; returns that, its key and its process."""
        while not self._connection_file.exists():
            if self._process.poll() is not None:
                raise SystemExit("the engine did not start")
            time.sleep(0.01)
        connection = json.loads(self._connection_file.read_text())
        return connection["url"], connection["api_key"], self._process.pid


@contextlib.contextmanager
def running_engine(*options: str, checkout: Path = CHECKOUT) -> Iterator[OwnEngine]:
    """Start an engine with a temporary data directory, and stop it at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="sbx-bench-") as folder,
        engine_in(folder, *options, checkout=checkout) as engine,
    ):
        yield engine


@contextlib.contextmanager
def engine_in(folder: str, *options: str, checkout: Path = CHECKOUT) -> Iterator[OwnEngine]:
    """Start an engine whose data directory is ``data`` in a folder, and stop it at the end."""
    engine = OwnEngine(folder, options, checkout)
    try:
        yield engine
    finally:
        engine.stop()


def first_output(engine: EngineClient, sandbox: dict[str, Any]) -> None:
    """Start a program in a sandbox, and return when its first output is here."""
    message = {"process": {"cmd": "/bin/echo", "args": ["hi"]}, "stdin": False}
    with engine.stream(sandbox, "process.Process/Start", message) as events:
        for _, payload in events:
            if b'"stdout"' in payload:
                return
    raise RuntimeError("no output")


def run_script(engine: EngineClient, sandbox: dict[str, Any], script: str) -> None:
    """Run a shell script in a sandbox to its end; raises ``RuntimeError`` when it fails."""
    message = {"process": {"cmd": "/bin/bash", "args": ["-ec", script]}, "stdin": False}
    with engine.stream(sandbox, "process.Process/Start", message) as events:
        payloads = [payload for _, payload in events]
    if not any(b'"end"' in payload and b'"exited":true' in payload for payload in payloads):
        raise RuntimeError(f"the script did not end: {payloads[-2:]!r}")
    if any(b'"exitCode":' in payload and b'"exitCode":0' not in payload for payload in payloads):
        raise RuntimeError(f"the script failed: {payloads!r}")


def timed(action: Callable[[], Any]) -> float:
    """Seconds that ``action`` takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def report(name: str, seconds: Sequence[float], baseline: Sequence[float] | None = None) -> None:
    """Print p50, p95 and p99 in ms, and the ratio of the medians."""
    line = (
        f"  {name:<44} n={len(seconds):<4} p50 {statistics.median(seconds) * 1e3:9.2f} ms"
        f"  p95 {percentile(seconds, 0.95) * 1e3:9.2f}  p99 {percentile(seconds, 0.99) * 1e3:9.2f}"
    )
    if baseline:
        line += f"  x{statistics.median(seconds) / statistics.median(baseline):.2f}"
    print(line, flush=True)


def report_rate(name: str, size: int, seconds: Sequence[float], baseline: float = 0) -> float:
    """Print the median rate in MB/s and its ratio to ``baseline``; returns the rate."""
    rate = size / statistics.median(seconds) / 1e6
    ratio = f"  x{rate / baseline:.2f}" if baseline else ""
    print(f"  {name:<44} n={len(seconds):<4} {rate:9.0f} MB/s{ratio}", flush=True)
    return rate


def resident_bytes(pid: int) -> int:
    """The resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
