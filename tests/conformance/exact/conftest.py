"""A sandbox for requests that are written by hand, without any client package."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.engine_process import EngineProcess

from .wire import Wire


@pytest.fixture(autouse=True)
def e2b_variables() -> None:
    """Nothing here uses the client packages that these variables are for."""


@pytest.fixture(scope="module")
def api(shared_engine: EngineProcess) -> Iterator[httpx.Client]:
    """The platform API with the engine's key."""
    with httpx.Client(
        base_url=shared_engine.url,
        headers={"X-API-Key": shared_engine.key},
        trust_env=False,
        timeout=30,
    ) as client:
        yield client


@pytest.fixture(scope="module")
def wire(shared_engine: EngineProcess, api: httpx.Client) -> Iterator[Wire]:
    created = api.post("/v2/sandboxes", json={"templateID": "base", "timeout": 3600}).json()
    found = Wire(shared_engine.url, created["sandboxID"], created["envdAccessToken"])
    with found.client:
        yield found
    api.delete(f"/sandboxes/{found.sandbox_id}")
