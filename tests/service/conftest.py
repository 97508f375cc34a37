"""A real engine process, once per session, and clients of its HTTP face."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.engine_process import EngineProcess, start_engine

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def engine() -> Iterator[EngineProcess]:
    with tempfile.TemporaryDirectory(prefix="service-") as folder:
        found = start_engine(Path(folder) / "data", "--pool-size", "1")
        try:
            yield found
        finally:
            assert found.stop() == 0
            assert not found.connection_file.exists()


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
