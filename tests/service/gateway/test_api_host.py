"""The platform API at ``api.<domain>``, where clients look for it (interface 1.0.1)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.checks import check_error
from tests.engine_process import EngineProcess, start_engine
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    """An engine behind a TLS terminator for a domain of its own."""
    with tempfile.TemporaryDirectory(prefix="api-host-") as folder:
        found = start_engine(Path(folder) / "data", "--pool-size", "0", "--domain", "Lab.example")
        try:
            yield found
        finally:
            assert found.stop() == 0


def call(
    engine: EngineProcess, method: str, path: str, host: str, **headers: str
) -> httpx.Response:
    with httpx.Client(base_url=engine.url, trust_env=False, timeout=PATIENCE) as client:
        return client.request(method, path, headers={"Host": host, **headers})


@pytest.mark.parametrize("host", ["api.lab.example", "API.LAB.EXAMPLE:443"])
def test_the_platform_api_has_a_host_name(engine: EngineProcess, host: str) -> None:
    listed = call(engine, "GET", "/v2/sandboxes", host, **{"X-API-Key": engine.key})

    assert call(engine, "GET", "/health", host).status_code == 204
    assert (listed.status_code, listed.json()) == (200, [])


def test_a_call_without_a_key_is_401_there(engine: EngineProcess) -> None:
    check_error(call(engine, "GET", "/v2/sandboxes", "api.lab.example"), 401)


def test_a_preflight_is_answered_there(engine: EngineProcess) -> None:
    asked = {"Origin": "https://page.example", "Access-Control-Request-Headers": "x-api-key"}

    answer = call(engine, "OPTIONS", "/v2/sandboxes", "api.lab.example", **asked)

    assert answer.status_code == 204
    assert answer.headers["access-control-allow-headers"] == "x-api-key"


def test_a_runtime_route_needs_a_sandbox_there_too(engine: EngineProcess) -> None:
    answer = call(engine, "GET", "/files", "api.lab.example")

    assert (answer.status_code, answer.text) == (400, "Invalid host")


@pytest.mark.parametrize("host", ["api.other.example", "lab.example", "x.api.lab.example"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_other_hosts_stay_invalid(engine: EngineProcess, method: str, host: str) -> None:
    answer = call(engine, method, "/v2/sandboxes", host)

    assert (answer.status_code, answer.text) == (400, "Invalid host")
