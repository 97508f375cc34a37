"""An engine that nobody needs ends by itself; one that somebody needs does not."""

from __future__ import annotations

import time

import httpx
import pytest

from sbx_jupyter.protocol.access import API_KEY_HEADER
from sbx_jupyter.service.app import SbxEngine
from sbx_jupyter.service.settings import DEFAULT_IDLE_TIMEOUT
from tests.engine_process import engine_process
from tests.waiting import until

pytestmark = pytest.mark.long

IDLE_SECONDS = 6
"""Long enough for a test to connect before, on a machine that is busy with others."""
SANDBOX_SECONDS = 15
"""Longer than that, so that only the sandbox can be what keeps the engine."""
PATIENCE = 60
"""Seconds in which a request must be answered; how fast it is does not matter here."""


@pytest.fixture
def engine():
    with engine_process("idle", f"--SbxEngine.idle_timeout={IDLE_SECONDS}") as running:
        yield running


def has_ended(engine):
    assert engine.process is not None
    return engine.process.poll() is not None


def test_an_engine_without_sandbox_and_client_ends_and_says_why(engine):
    until(lambda: has_ended(engine))

    assert engine.process.poll() == 0
    assert not engine.connection_file.exists()
    lines = (engine.data_dir / "log" / "engine.jsonl").read_text().splitlines()
    assert any("idle" in line and "stopping" in line for line in lines)


def test_a_sandbox_keeps_the_engine_and_its_end_lets_it_go(engine):
    headers = {API_KEY_HEADER: engine.key}
    asked_at = time.monotonic()
    with httpx.Client(base_url=engine.url, headers=headers, timeout=PATIENCE) as client:
        made = client.post(
            "/v2/sandboxes", json={"templateID": "base", "timeout": SANDBOX_SECONDS}
        ).json()

    until(lambda: has_ended(engine))

    assert made["sandboxID"]
    assert time.monotonic() - asked_at > SANDBOX_SECONDS


def test_an_open_connection_keeps_the_engine_unless_it_only_follows_changes(engine):
    with httpx.Client(base_url=engine.url, timeout=PATIENCE) as client:
        assert client.get("/health").status_code == 204
        with pytest.raises(AssertionError, match="did not come about"):
            until(lambda: has_ended(engine), timeout=IDLE_SECONDS + 2)
    headers = {API_KEY_HEADER: engine.key}
    url = f"{engine.url}/engine/events"
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE) as stream:
        assert next(stream.iter_lines()) == "event: changed"
        until(lambda: has_ended(engine))


def test_only_an_engine_that_a_client_started_ends_by_default():
    assert SbxEngine().idle_timeout == 0
    assert SbxEngine(on_demand=True).idle_timeout == DEFAULT_IDLE_TIMEOUT
    assert SbxEngine(on_demand=True, idle_timeout=0).idle_timeout == 0
