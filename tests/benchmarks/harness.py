"""An engine process to measure, a raw HTTP way to talk to it, and the printing of figures."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from sbx_jupyter.protocol import access, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class EngineClient:
    """The engine's HTTP interface with as little between as httpx allows."""

    def __init__(self, url: str, api_key: str) -> None:
        self.url = url
        limits = httpx.Limits(max_connections=400, max_keepalive_connections=400)
        self.platform = httpx.Client(
            base_url=url, headers={access.API_KEY_HEADER: api_key}, timeout=60, limits=limits,
            trust_env=False,
        )  # fmt: skip
        self.runtime = httpx.Client(base_url=url, timeout=300, limits=limits, trust_env=False)

    def create(self, **fields: Any) -> dict[str, Any]:
        body = {"templateID": "base", "timeout": 3600, **fields}
        response = self.platform.post("/v2/sandboxes", json=body)
        response.raise_for_status()
        return response.json()

    def kill(self, sandbox: dict[str, Any]) -> None:
        self.platform.delete(f"/sandboxes/{sandbox['sandboxID']}").raise_for_status()

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

    def unary(self, sandbox: dict[str, Any], method: str, message: dict[str, Any]) -> Any:
        response = self.runtime.post(f"/{method}", json=message, headers=self.headers(sandbox))
        response.raise_for_status()
        return response.json()

    @contextlib.contextmanager
    def stream(
        self, sandbox: dict[str, Any], method: str, message: dict[str, Any]
    ) -> Iterator[Iterator[tuple[int, bytes]]]:
        """The envelopes of a server stream."""
        headers = {**self.headers(sandbox), "content-type": connect.STREAM_CONTENT_TYPE}
        content = connect.encode_envelope(json.dumps(message).encode())
        with self.runtime.stream("POST", f"/{method}", content=content, headers=headers) as reply:
            reply.raise_for_status()
            decoder = connect.EnvelopeDecoder()
            yield (item for chunk in reply.iter_raw() for item in decoder.feed(chunk))


@contextlib.contextmanager
def running_engine() -> Iterator[EngineClient]:
    """An engine of its own, in a temporary data directory."""
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as folder:
        connection_file = Path(folder, "engine.json")
        process = subprocess.Popen(
            [sys.executable, "-m", "sbx_jupyter.cli", "engine", "--port", "0",
             "--data-dir", f"{folder}/data", "--connection-file", str(connection_file)],
        )  # fmt: skip
        try:
            while not connection_file.exists():
                if process.poll() is not None:
                    raise SystemExit("the engine did not start")
                time.sleep(0.05)
            connection = json.loads(connection_file.read_text())
            yield EngineClient(connection["url"], connection["api_key"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def timed(action: Callable[[], Any]) -> float:
    """Seconds that ``action`` takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


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
    """RSS of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
