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

SANDBOX_SECONDS = 5
IDLE = "--SbxEngine.idle_timeout=1.5"


@pytest.fixture
def engine():
    with engine_process("idle", IDLE) as running:
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
    with httpx.Client(base_url=engine.url, headers=headers) as client:
        made = client.post(
            "/v2/sandboxes", json={"templateID": "base", "timeout": SANDBOX_SECONDS}
        ).json()
    made_at = time.monotonic()

    until(lambda: has_ended(engine))

    assert made["sandboxID"]
    assert time.monotonic() - made_at > SANDBOX_SECONDS - 1


def test_an_open_connection_keeps_the_engine_unless_it_only_follows_changes(engine):
    with httpx.Client(base_url=engine.url) as client:
        assert client.get("/health").status_code == 204
        with pytest.raises(AssertionError, match="did not come about"):
            until(lambda: has_ended(engine), timeout=4)
    headers = {API_KEY_HEADER: engine.key}
    with httpx.stream("GET", f"{engine.url}/engine/events", headers=headers) as stream:
        assert next(stream.iter_lines()) == "event: changed"
        until(lambda: has_ended(engine))


def test_only_an_engine_that_a_client_started_ends_by_default():
    assert SbxEngine().idle_timeout == 0
    assert SbxEngine(on_demand=True).idle_timeout == DEFAULT_IDLE_TIMEOUT
    assert SbxEngine(on_demand=True, idle_timeout=0).idle_timeout == 0
