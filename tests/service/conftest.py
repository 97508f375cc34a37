"""A real engine process, once per session, and clients of its HTTP face."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class EngineProcess:
    """An engine in a process of its own."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    connection_file: Path
    url: str
    key: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def resident_mb(self) -> float:
        """The memory that the process holds now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


def start_engine(
    data_dir: Path, *options: str, environment: dict[str, str] | None = None
) -> EngineProcess:
    """Start an engine and wait until it serves."""
    connection_file = data_dir / "engine.json"
    process = popen_engine(data_dir, *options, environment=environment)
    deadline = time.monotonic() + 30
    while not connection_file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(process.communicate()[1].decode())
        time.sleep(0.02)
    found = json.loads(connection_file.read_bytes())
    return EngineProcess(process, data_dir, connection_file, found["url"], found["api_key"])


def popen_engine(
    data_dir: Path, *options: str, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sbx_jupyter.cli", "engine"]
    command += [] if "--port" in options else ["--port", "0"]
    command += ["--data-dir", str(data_dir), "--connection-file", str(data_dir / "engine.json")]
    return subprocess.Popen(
        [*command, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "default", **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


@pytest.fixture(scope="session")
def engine() -> Iterator[EngineProcess]:
    with tempfile.TemporaryDirectory(prefix="service-") as folder:
        found = start_engine(Path(folder) / "data", "--pool-size", "1")
        try:
            yield found
        finally:
            assert found.stop() == 0
            assert not found.connection_file.exists()
            assert found.process.stderr is not None
            found.process.stderr.close()


@pytest.fixture
def api(engine: EngineProcess) -> Iterator[httpx.Client]:
    """The platform API with the engine's key."""
    with httpx.Client(
        base_url=engine.url, headers={"X-API-Key": engine.key}, trust_env=False, timeout=30
    ) as client:
        yield client


@dataclass(slots=True)
class SandboxAccess:
    """A sandbox and how to reach its ports."""

    id: str
    token: str
    url: str

    def headers(self, port: int = 49983) -> dict[str, str]:
        return {
            "E2b-Sandbox-Id": self.id,
            "E2b-Sandbox-Port": str(port),
            "X-Access-Token": self.token,
        }

    def client(self, port: int = 49983) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers=self.headers(port), trust_env=False, timeout=30
        )


def create_sandbox(api: httpx.Client, **fields: object) -> SandboxAccess:
    answer = api.post("/v2/sandboxes", json={"templateID": "base", **fields})
    assert answer.status_code == 201, answer.text
    body = answer.json()
    return SandboxAccess(body["sandboxID"], body["envdAccessToken"], str(api.base_url).rstrip("/"))


@pytest.fixture
def sandbox(api: httpx.Client) -> Iterator[SandboxAccess]:
    """A sandbox for one test."""
    found = create_sandbox(api)
    try:
        yield found
    finally:
        api.delete(f"/sandboxes/{found.id}")


@pytest.fixture(scope="session")
def shared(engine: EngineProcess) -> Iterator[SandboxAccess]:
    """A sandbox for tests that leave nothing behind."""
    with httpx.Client(
        base_url=engine.url, headers={"X-API-Key": engine.key}, trust_env=False, timeout=30
    ) as client:
        yield create_sandbox(client, timeout=3600)


@pytest.fixture
def runtime(shared: SandboxAccess) -> Iterator[httpx.Client]:
    """The runtime API of the shared sandbox."""
    with shared.client() as client:
        yield client
