"""An engine that dies in the middle of a copy leaves nothing that goes on writing."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import time
from collections.abc import Iterator

import httpx
import pytest

from sbx_jupyter.client import Sandbox
from sbx_jupyter.client.connection.config import ConnectionConfig
from tests.engine.storage.disk.conftest import FAST_DISK, run
from tests.engine.storage.disk.test_operations import FILL, wait_for_one
from tests.engine_process import EngineProcess, engine_process
from tests.waiting import PATIENCE, Busyness, until

pytestmark = pytest.mark.long

LONGEST = 10.0
"""Seconds that a stop may take, besides what the machine's other work costs."""


@pytest.fixture
def mortal() -> Iterator[EngineProcess]:
    """An engine of its own, to be killed."""
    with engine_process("crash", "--pool-size", "0", folder=FAST_DISK) as running:
        yield running


def post(engine: EngineProcess, path: str) -> httpx.Response | None:
    found = engine.connection
    headers = {"X-API-Key": found.api_key}
    try:
        return httpx.post(
            f"{found.url}{path}", json={}, headers=headers, trust_env=False, timeout=60
        )
    except httpx.TransportError:
        return None


@pytest.mark.parametrize("kind", ["snapshots", "fork"])
def test_a_copy_ends_with_its_engine_and_nothing_of_it_stays(
    mortal: EngineProcess, kind: str
) -> None:
    config = ConnectionConfig.from_connection_file(mortal.connection)
    sandbox = Sandbox.create(timeout=3000, config=config)
    run(sandbox, FILL)
    layers = mortal.data_dir / "layers"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asking = pool.submit(post, mortal, f"/sandboxes/{sandbox.sandbox_id}/{kind}")
        wait_for_one(sandbox)
        assert len(os.listdir(layers)) == 1
        mortal.kill()
        assert asking.result() is None

    mortal.start()

    assert os.listdir(layers) == []
    config = ConnectionConfig.from_connection_file(mortal.connection)
    sandbox = Sandbox.connect(sandbox.sandbox_id, config=config)
    assert run(sandbox, "ls ~/many/7 | wc -l") == "1000"
    snapshot = sandbox.snapshot()
    copy = Sandbox.create(snapshot.snapshot_id, config=config)
    assert run(copy, "find ~/many -type f | wc -l") == "20000"
    beside = not mortal.is_separate
    assert len(os.listdir(layers)) == 1 + beside  # the layer, and its manifest if kept there
    for made in (copy, sandbox):
        made.kill()
    path = f"/templates/{snapshot.snapshot_id.replace(':', '%3A')}"
    headers = {"X-API-Key": mortal.connection.api_key}
    url = f"{mortal.connection.url}{path}"

    def is_removed() -> bool:
        answer = httpx.delete(url, headers=headers, trust_env=False, timeout=PATIENCE)
        return answer.status_code == 204

    until(is_removed)
    until(lambda: os.listdir(layers) == [])


def test_a_stop_does_not_wait_for_queued_copies(mortal: EngineProcess) -> None:
    busy = Busyness()  # before this test keeps the machine busy itself
    config = ConnectionConfig.from_connection_file(mortal.connection)
    sandbox = Sandbox.create(timeout=3000, config=config)
    run(sandbox, FILL)
    path = f"/sandboxes/{sandbox.sandbox_id}"
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(post, mortal, f"{path}/{kind}") for kind in ("snapshots", "fork") * 8]
        wait_for_one(sandbox)
        process = mortal.process
        assert process is not None
        began = time.monotonic()

        process.send_signal(signal.SIGTERM)
        status = process.wait(120)

        took = time.monotonic() - began
        answers = [each.result() for each in asked]
    assert status == 0
    assert took < LONGEST * busy.most()
    assert all(answer is None or answer.status_code in (409, 503) for answer in answers)
    log = "".join(path.read_text() for path in mortal.data_dir.glob("log/*"))
    assert "Traceback" not in log + mortal.log.read_text()
