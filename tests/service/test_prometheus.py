"""What an operator sees of an engine at ``/engine/metrics``."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.engine_process import EngineProcess, start_engine
from tests.waiting import until

from . import rpc
from .conftest import create_sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 60.0
OPTIONS = (
    "--pool-size=1",
    "--SbxEngine.default_memory_mb=128",
    "--SbxEngine.default_disk_mb=16",
    "--SbxEngine.metrics_interval=0.5",
    "--SbxEngine.egress_exceptions=127.0.0.1/32",
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def small() -> Iterator[EngineProcess]:
    """An engine whose sandboxes run into their limits soon."""
    with tempfile.TemporaryDirectory(prefix="service-small-") as folder:
        engine = start_engine(Path(folder) / "data", *OPTIONS)
        try:
            yield engine
        finally:
            assert engine.stop() == 0


@pytest.fixture
def own(small: EngineProcess) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=small.url, headers={"X-API-Key": small.key}, trust_env=False, timeout=60
    ) as client:
        yield client


def scrape(api: httpx.Client) -> Samples:
    """Every sample, by its name and labels, after a parser found the text well formed."""
    answer = api.get("/engine/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation, family.name
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


def scrape_until(api: httpx.Client, holds: Callable[[Samples], bool]) -> Samples:
    """The samples, once a condition holds for them."""

    def scraped() -> Samples | None:
        samples = scrape(api)
        return samples if holds(samples) else None

    return until(scraped, step=0.1)


def test_each_operation_is_timed(own: httpx.Client) -> None:
    before = scrape(own)
    sandbox = create_sandbox(own)
    own.post(f"/sandboxes/{sandbox.id}/pause").raise_for_status()
    own.post(f"/v2/sandboxes/{sandbox.id}/connect", json={"timeout": 60}).raise_for_status()
    own.post(f"/sandboxes/{sandbox.id}/snapshots", json={}).raise_for_status()
    build(own)
    own.delete(f"/sandboxes/{sandbox.id}").raise_for_status()

    after = scrape_until(
        own, lambda now: value(now, "sbx_operation_seconds_count", operation="build") > 0
    )
    for operation in ("create", "pause", "resume", "snapshot", "build", "kill"):
        counted = [
            value(samples, "sbx_operation_seconds_count", operation=operation)
            for samples in (before, after)
        ]
        assert counted[1] > counted[0], operation
        assert value(after, "sbx_operation_seconds_sum", operation=operation) > 0
    assert value(after, "sbx_store_commit_seconds_count") > value(
        before, "sbx_store_commit_seconds_count"
    )
    assert value(after, "sbx_sandboxes_ended_total", reason="killed") > value(
        before, "sbx_sandboxes_ended_total", reason="killed"
    )


def build(api: httpx.Client) -> None:
    """Announce and start a build of nothing but the stock template."""
    announced = api.post("/v3/templates", json={"name": "prometheus-test"})
    announced.raise_for_status()
    ids = announced.json()
    api.post(
        f"/v2/templates/{ids['templateID']}/builds/{ids['buildID']}",
        json={"fromTemplate": "base", "steps": []},
    ).raise_for_status()


def test_failures_are_counted_by_their_kind(own: httpx.Client, small: EngineProcess) -> None:
    before = scrape(own)

    assert own.post("/v2/sandboxes", json={"templateID": "no-such"}).status_code == 404
    assert own.get("/v2/sandboxes", headers={"X-API-Key": "e2b_00"}).status_code == 401
    sandbox = create_sandbox(own)
    stranger = {**sandbox.headers(), "X-Access-Token": "wrong"}
    refused = httpx.post(
        f"{small.url}/process.Process/List",
        json={},
        headers=stranger,
        trust_env=False,
        timeout=PATIENCE,
    )
    assert refused.status_code == 401
    own.delete(f"/sandboxes/{sandbox.id}")

    after = scrape(own)
    for name, labels in (
        ("sbx_operation_failures_total", {"operation": "create", "reason": "not_found"}),
        ("sbx_auth_failures_total", {"surface": "platform"}),
        ("sbx_auth_failures_total", {"surface": "rpc"}),
    ):
        assert value(after, name, **labels) == value(before, name, **labels) + 1, (name, labels)


def test_kills_for_limits_are_counted(own: httpx.Client) -> None:
    sandbox = create_sandbox(own, timeout=300)
    with sandbox.client() as runtime:
        rpc.run(runtime, "python3 -c 'bytearray(1 << 30)'; true")
        rpc.run(runtime, "timeout 50 sh -c 'while :; do head -c 40M /dev/zero > big; done'; true")

    scrape_until(
        own,
        lambda now: (
            value(now, "sbx_oom_kills_total")
            + value(now, "sbx_watchdog_kills_total", limit="memory")
            > 0
            and value(now, "sbx_watchdog_kills_total", limit="disk") > 0
        ),
    )
    own.delete(f"/sandboxes/{sandbox.id}")


def test_connections_out_of_sandboxes_are_counted(own: httpx.Client) -> None:
    before = scrape(own)
    sandbox = create_sandbox(own)
    with greeter() as port, sandbox.client() as runtime:
        said = rpc.run(runtime, connect_to(f"127.0.0.1:{port}"))[1]
        denied = rpc.run(runtime, connect_to("169.254.169.254:80"))[1]
    own.delete(f"/sandboxes/{sandbox.id}")

    assert b"hello" in said
    assert b"403" in denied
    after = scrape(own)
    for decision in ("allowed", "refused"):
        name = "sbx_egress_connections_total"
        assert value(after, name, decision=decision) > value(before, name, decision=decision)


def connect_to(target: str) -> str:
    """A command that asks the proxy for a connection and prints what comes."""
    return (
        "exec 3<>/dev/tcp/127.0.0.1/49982;"
        f" printf 'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n' >&3;"
        " timeout 20 cat <&3; true"
    )


@contextlib.contextmanager
def greeter() -> Iterator[int]:
    """A port of the machine that says hello to one caller."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"hello\n")

        thread = threading.Thread(target=greet)
        thread.start()
        yield server.getsockname()[1]
        thread.join(PATIENCE)


def test_gauges_follow_what_there_is(own: httpx.Client) -> None:
    scrape_until(own, lambda now: value(now, "sbx_pool_ready") == 1)
    before = scrape(own)
    sandbox = create_sandbox(own)
    with sandbox.client() as runtime:
        watched = rpc.unary(runtime, "filesystem.Filesystem/CreateWatcher", {"path": "/tmp"})
        watched.raise_for_status()
        with runtime.stream(
            "POST",
            "/process.Process/Start",
            content=rpc.envelope(rpc.start_request("sleep 60")),
            headers={"Content-Type": rpc.STREAM},
        ) as answer:
            pieces = answer.iter_bytes()  # it closes the stream when it is dropped
            next(pieces)
            during = scrape(own)
    own.post(f"/sandboxes/{sandbox.id}/pause").raise_for_status()
    paused = scrape(own)
    own.delete(f"/sandboxes/{sandbox.id}")

    for name in ("sbx_open_streams", "sbx_watchers", "sbx_processes"):
        assert value(during, name) == value(before, name) + 1, name
    for samples, state in ((during, "running"), (paused, "paused_full")):
        assert value(samples, "sbx_sandboxes", state=state) == 1
    assert value(during, "sbx_pool_size") == 1
    assert value(during, "sbx_engine_process_open_fds") > 10
    assert value(during, "sbx_engine_process_resident_memory_bytes") > 1 << 20
    assert value(during, "sbx_engine_process_cpu_seconds_total") > 0
    scrape_until(own, lambda now: value(now, "sbx_event_loop_lateness_seconds_count") > 2)
    assert ("sbx_event_loop_lag_seconds", frozenset()) in during


def test_what_limits_are_worth_is_told_alike_everywhere(
    own: httpx.Client, small: EngineProcess
) -> None:
    told = own.get("/engine/info").json()["isolation"]
    doctor = subprocess.run(
        [sys.executable, "-m", "sbx_jupyter.cli.main", "doctor", "--json",
         f"--data-dir={small.data_dir}"],
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    labels = [
        dict(labels)
        for (name, labels), at in scrape(own).items()
        if name == "sbx_limit" and at == 1
    ]
    measured = {(one["resource"], one["word"], one["holder"]) for one in labels}
    for report in (told, json.loads(doctor.stdout)):
        holders = report["limits"]
        assert {
            (name, word, holders[name]) for name, word in report["limit_words"].items()
        } == measured
    assert measured


def test_requests_are_timed_by_who_answers_them(own: httpx.Client) -> None:
    before = scrape(own)
    sandbox = create_sandbox(own)
    with sandbox.client() as runtime:
        rpc.unary(runtime, "process.Process/List", {}).raise_for_status()
        rpc.run(runtime, "true")
        runtime.get("/envs").raise_for_status()
    with sandbox.client(9) as nobody:
        assert nobody.get("/").status_code == 502
    own.delete(f"/sandboxes/{sandbox.id}")

    after = scrape(own)
    for surface in ("platform", "rpc", "stream", "runtime", "gateway"):
        name = "sbx_request_seconds_count"
        assert value(after, name, surface=surface) > value(before, name, surface=surface), surface
        assert value(after, "sbx_request_seconds_bucket", surface=surface, le="+Inf") == value(
            after, name, surface=surface
        )
