"""Long copies: how far they are, and their cancellation."""

from __future__ import annotations

import concurrent.futures
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sbx_jupyter.client import Sandbox
from sbx_jupyter.client.connection.config import ConnectionConfig
from sbx_jupyter.engine.sandboxes.long_operations import Operations
from sbx_jupyter.errors import AbortedError, FailedPreconditionError, NotFoundError
from sbx_jupyter.protocol.disk import SandboxOperation
from tests.checks import check_error
from tests.engine.storage.disk.conftest import Sandboxes, run
from tests.engine_process import EngineProcess
from tests.waiting import until

FILES = 20_000
FILL = f"""
mkdir ~/many && cd ~/many && python3 -c "
import os
for index in range({FILES}):
    if index % 1000 == 0:
        os.mkdir(str(index // 1000))
    open(str(index // 1000) + '/' + str(index), 'wb').write(b'x' * 5000)
"
"""
"""So many files that copying them takes seconds anywhere."""


@pytest.fixture(scope="module")
def large(engine: EngineProcess) -> Iterator[Sandbox]:
    """A sandbox that no test changes; filling it takes a while."""
    config = ConnectionConfig.from_connection_file(engine.connection)
    with Sandbox.create(timeout=3000, config=config) as sandbox:
        run(sandbox, FILL)
        yield sandbox


def wait_for_one(sandbox: Sandbox) -> SandboxOperation:
    """The operation in progress, once it has copied something."""
    found: list[SandboxOperation] = []

    def is_there() -> bool:
        found[:] = sandbox.operations()
        return bool(found) and found[0].done_bytes > 0

    until(is_there)
    return found[0]


@pytest.mark.long
def test_a_snapshot_tells_how_far_it_is_and_how_long_the_sandbox_stood_still(
    large: Sandbox, api: httpx.Client
) -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        making = pool.submit(large.snapshot, "followed")
        seen = [wait_for_one(large)]
        while not making.done():
            seen += large.operations()

    sizes = {each.total_bytes for each in seen} - {None}
    assert {(each.operation_id, each.kind) for each in seen} == {(seen[0].operation_id, "snapshot")}
    assert [each.done_bytes for each in seen] == sorted(each.done_bytes for each in seen)
    assert len(sizes) <= 1
    assert all(each.done_bytes <= (each.total_bytes or 1 << 60) for each in seen)
    assert large.operations() == []
    entries = api.get(f"/v2/sandboxes/{large.sandbox_id}/logs?direction=forward").json()["logs"]
    made = [e for e in entries if e["message"] == "Snapshot made"][-1]
    if sizes:  # it took more than a second
        copying = [e for e in entries if e["message"].startswith("Copying the files")][-1]
        assert copying["fields"]["bytes"] == str(sizes.pop())
    assert int(made["fields"]["bytes"]) >= FILES * 5000
    assert float(made["fields"]["stopped_ms"]) < float(made["fields"]["seconds"]) * 1000
    assert "memory" in made["fields"]["not_carried"]
    assert api.delete("/templates/followed").status_code == 204


@pytest.mark.parametrize("kind", ["snapshots", "fork"])
def test_a_copy_that_is_cancelled_leaves_nothing_and_the_sandbox_goes_on(
    large: Sandbox, api: httpx.Client, engine: EngineProcess, kind: str
) -> None:
    before = set(os.listdir(engine.data_dir / "layers"))
    answers: list[httpx.Response] = []

    def ask() -> None:
        answers.append(api.post(f"/sandboxes/{large.sandbox_id}/{kind}", json={}))

    asking = threading.Thread(target=ask)
    asking.start()
    operation = wait_for_one(large)
    assert operation.cancellable

    assert large.cancel_operation(operation.operation_id)

    asking.join()
    check_error(answers[0], 409, "was cancelled")
    until(lambda: set(os.listdir(engine.data_dir / "layers")) == before)
    assert run(large, "ls ~/many/0 | wc -l") == "1000"
    assert large.info().state == "running"
    assert large.operations() == []
    entries = api.get(f"/v2/sandboxes/{large.sandbox_id}/logs?direction=forward").json()["logs"]
    assert entries[-1]["message"].endswith("was cancelled")
    assert not large.cancel_operation(operation.operation_id)


def test_a_client_that_leaves_does_not_end_its_snapshot(
    large: Sandbox, api: httpx.Client, engine: EngineProcess
) -> None:
    host, port = api.base_url.host, api.base_url.port
    assert port is not None
    body = b'{"name":"left"}'
    head = (
        f"POST /sandboxes/{large.sandbox_id}/snapshots HTTP/1.1\r\nHost: {host}\r\n"
        f"X-API-Key: {engine.connection.api_key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, port)) as connection:
        connection.sendall(head.encode() + body)
        wait_for_one(large)

    def names() -> list[str]:
        return [item["snapshotID"] for item in api.get("/snapshots").json()]

    until(lambda: "local/left:default" in names())
    assert api.delete("/templates/left").status_code == 204


def test_other_requests_are_answered_while_files_are_copied_and_measured(
    large: Sandbox, api: httpx.Client
) -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        making = pool.submit(large.snapshot, "busy")
        wait_for_one(large)
        measuring = pool.submit(api.get, "/engine/disk", params={"maxAge": 0})
        answered = 0
        while not (making.done() and measuring.done()):
            assert run(large, "echo works") == "works"
            answered += 1
    assert measuring.result().status_code == 200
    assert answered > 2
    assert api.delete("/templates/busy").status_code == 204


def test_an_operation_that_there_is_not_is_404(api: httpx.Client, sandboxes: Sandboxes) -> None:
    sandbox = sandboxes.create()
    base = f"/engine/sandboxes/{sandbox.sandbox_id}/operations"

    assert api.get(base).json() == []
    check_error(api.delete(f"{base}/nothing"), 404, "nothing")
    check_error(api.get("/engine/sandboxes/inothere00000000000000/operations"), 404)
    check_error(api.delete("/engine/sandboxes/inothere00000000000000/operations/x"), 404)


def test_only_what_nobody_depends_on_yet_can_be_cancelled() -> None:
    operations = Operations()
    with operations.begin("a", "pause") as pause, operations.begin("a", "fork") as fork:
        with pytest.raises(FailedPreconditionError, match="pause"):
            operations.cancel("a", pause.operation_id)
        with pytest.raises(NotFoundError):
            operations.cancel("b", fork.operation_id)
        operations.cancel("a", fork.operation_id)
        assert fork.progress.is_cancelled
        fork.phase = "finishing"
        with pytest.raises(FailedPreconditionError, match="finishing"):
            operations.cancel("a", fork.operation_id)
        assert [each.kind for each in operations.of("a")] == ["pause", "fork"]
        assert operations.of("b") == []
    assert operations.of("a") == []


def test_errors_of_both_clients_are_those_of_the_engine(sandboxes: Sandboxes) -> None:
    sandbox = sandboxes.create()
    sandbox.kill()
    with pytest.raises(NotFoundError):
        sandbox.operations()
    assert issubclass(AbortedError, Exception)


def fields_of(entries: list[dict[str, Any]], message: str) -> dict[str, str]:
    (entry,) = (entry for entry in entries if entry["message"].startswith(message))
    return entry["fields"]


def test_forks_say_where_they_come_from_and_what_they_lack(
    api: httpx.Client, sandboxes: Sandboxes
) -> None:
    source = sandboxes.create()
    answer = api.post(f"/sandboxes/{source.sandbox_id}/fork", json={"count": 2, "timeout": 60})

    forks = [item["sandbox"]["sandboxID"] for item in answer.json()]

    for fork in forks:
        fields = fields_of(
            api.get(f"/v2/sandboxes/{fork}/logs?direction=forward").json()["logs"], "Forked"
        )
        assert fields["source"] == source.sandbox_id
        assert "processes, memory, open terminals" in fields["not_carried"]
        api.delete(f"/sandboxes/{fork}")
    entries = api.get(f"/v2/sandboxes/{source.sandbox_id}/logs?direction=forward").json()["logs"]
    fields = fields_of(entries, "Forked")
    assert set(fields["forks"].split(", ")) == set(forks)
    assert fields["failed"] == "0"
