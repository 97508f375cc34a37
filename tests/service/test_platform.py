"""The platform API over HTTP: interface 1.0 and 1.3."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.checks import check_error
from tests.engine_process import EngineProcess
from tests.waiting import PATIENCE

from .conftest import SandboxAccess, create_sandbox
from .rpc import STREAM, envelope


@pytest.mark.parametrize("key", [None, "", "e2b_00", "wrong", "\xff\xfe"])
def test_a_missing_or_wrong_key_is_401(engine: EngineProcess, key: str | None) -> None:
    headers = [] if key is None else [(b"X-API-Key", key.encode("latin-1"))]

    answer = httpx.get(
        f"{engine.url}/v2/sandboxes", headers=headers, trust_env=False, timeout=PATIENCE
    )

    check_error(answer, 401)


def test_the_key_is_not_repeated_in_the_answer_or_the_log(engine: EngineProcess) -> None:
    headers = {"X-API-Key": "e2b_deadbeefcafe"}

    answer = httpx.get(
        f"{engine.url}/v2/sandboxes", headers=headers, trust_env=False, timeout=PATIENCE
    )

    assert "deadbeefcafe" not in answer.text
    log = (engine.data_dir / "log" / "engine.jsonl").read_text()
    assert "deadbeefcafe" not in log
    assert engine.key not in log


def test_health_needs_no_key(engine: EngineProcess) -> None:
    answer = httpx.get(f"{engine.url}/health", trust_env=False, timeout=PATIENCE)

    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("path", ["/nope", "/sandboxes/a/b/c", "/v9/sandboxes", "/"])
def test_an_unknown_route_is_404_as_json(api: httpx.Client, path: str) -> None:
    check_error(api.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/v2/sandboxes"), ("PATCH", "/sandboxes/i0"), ("GET", "/sandboxes/i0/pause")],
)
def test_a_wrong_method_is_405_as_json(api: httpx.Client, method: str, path: str) -> None:
    check_error(api.request(method, path), 405)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "Error when parsing request:"),
        (b"{", "Error when parsing request:"),
        (b"\xff\xfe", "Error when parsing request:"),
        (b"[" * 100_000, ""),
        (b'{"templateID":"base","mcp":{"a":' + b"[" * 100_000, "Error when parsing request:"),
        (b"[]", "validation error:"),
        (b"{}", "validation error:"),
        (b'{"templateID":1}', "validation error:"),
        (b'{"templateID":"base","timeout":"5"}', "validation error:"),
        (b'{"templateID":"base","timeout":1e99}', "validation error:"),
        (b'{"templateID":"base","metadata":{"a":1}}', "validation error:"),
        (b'{"templateID":"base","timeout":0}', "Timeout must be greater than 0"),
        (b'{"templateID":"base","timeout":999999999}', "Timeout cannot be greater than"),
        (b'{"templateID":"../x"}', ""),
    ],
)
def test_a_wrong_body_of_create_is_400(api: httpx.Client, body: bytes, text: str) -> None:
    check_error(api.post("/v2/sandboxes", content=body), 400, text)


def test_an_unknown_template_is_404(api: httpx.Client) -> None:
    answer = api.post("/v2/sandboxes", json={"templateID": "no-such-template"})

    check_error(answer, 404, "template 'no-such-template' not found")


def test_a_body_above_16_mib_is_refused(api: httpx.Client) -> None:
    answer = api.post("/v2/sandboxes", content=b'"' + b"x" * (17 << 20) + b'"')

    check_error(answer, 413)


def _read_head(sock: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = sock.recv(65536)
        assert piece, "closed without an answer"
        received += piece
    return received


def test_a_client_that_sends_all_of_a_17_mb_body_gets_413_and_can_go_on(
    engine: EngineProcess,
) -> None:
    size = 17 << 20
    head = f"POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {engine.key}\r\n"
    with socket.create_connection(("127.0.0.1", engine.port), timeout=20) as sock:
        sock.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode())
        sock.sendall(b"x" * size)
        answered = _read_head(sock)
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while piece := sock.recv(65536):
            answered += piece

    assert answered.startswith(b"HTTP/1.1 413 ")
    assert b"HTTP/1.1 204 " in answered


def test_a_declared_2_gb_body_is_refused_before_it_arrives(engine: EngineProcess) -> None:
    head = f"POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {engine.key}\r\n"
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        sock.sendall(f"{head}Content-Length: 2147483648\r\n\r\n".encode())

        assert _read_head(sock).startswith(b"HTTP/1.1 413 ")


def test_a_chunked_2_gb_body_is_refused_at_the_limit_and_costs_no_memory(
    engine: EngineProcess,
) -> None:
    before = engine.resident_mb()
    head = f"POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {engine.key}\r\n"
    piece = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        sock.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        try:
            for _ in range(2048):
                sock.sendall(piece)
                sent += 1
        except (BrokenPipeError, ConnectionResetError):
            pass

    assert sent < 64
    assert engine.resident_mb() - before < 64


def test_a_body_without_a_key_is_refused_before_it_arrives(engine: EngineProcess) -> None:
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        sock.sendall(
            b"POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n"
        )

        assert _read_head(sock).startswith(b"HTTP/1.1 401 ")


def test_a_connection_goes_on_after_a_refusal_with_a_small_body(api: httpx.Client) -> None:
    for _ in range(3):
        check_error(api.post("/v2/sandboxes", json={}), 400)
        assert api.get("/v2/sandboxes").status_code == 200


def test_a_sandbox_is_created_described_listed_and_ended(api: httpx.Client) -> None:
    body: dict[str, Any] = {"templateID": "base", "metadata": {"who": "me"}, "timeout": 100}

    created = api.post("/v2/sandboxes", json=body)

    assert created.status_code == 201
    sandbox = created.json()
    assert set(sandbox) >= {"templateID", "sandboxID", "clientID", "envdVersion", "envdAccessToken"}
    path = f"/sandboxes/{sandbox['sandboxID']}"
    detail = api.get(path).json()
    assert detail["state"] == "running"
    assert detail["metadata"] == {"who": "me"}
    assert detail["lifecycle"] == {"autoResume": False, "onTimeout": "kill"}
    assert None not in (detail.get(name, 0) for name in ("network", "pauseMode"))
    listed = {each["sandboxID"]: each for each in api.get("/v2/sandboxes").json()}
    assert sandbox["sandboxID"] in listed
    assert "envdAccessToken" not in listed[sandbox["sandboxID"]]
    ended = api.delete(path)
    assert (ended.status_code, ended.content) == (204, b"")
    check_error(api.get(path), 404, f'Sandbox "{sandbox["sandboxID"]}" doesn\'t exist')
    check_error(api.delete(path), 404)


def test_a_chunked_json_body_is_accepted_on_every_verb(
    api: httpx.Client, sandbox: SandboxAccess
) -> None:
    path = f"/sandboxes/{sandbox.id}"

    assert api.post(f"{path}/timeout", content=iter([b'{"time', b'out":60}'])).status_code == 204
    assert api.put(f"{path}/network", content=iter([b"{}"])).status_code == 204
    assert api.request("DELETE", path, content=iter([b"{}"])).status_code == 204


def test_version_1_without_secure_gives_no_token(api: httpx.Client) -> None:
    answer = api.post("/sandboxes", json={"templateID": "base"})

    assert answer.status_code == 201
    assert "envdAccessToken" not in answer.json()
    api.delete(f"/sandboxes/{answer.json()['sandboxID']}")


@pytest.mark.parametrize("sandbox_id", ["I0", "a_b", "a-b-c", "%2e%2e", "i%00", "i" * 5 + "%ff"])
def test_a_malformed_sandbox_id_is_400(api: httpx.Client, sandbox_id: str) -> None:
    check_error(api.get(f"/sandboxes/{sandbox_id}"), 400)


def test_the_legacy_form_of_an_id_is_accepted(api: httpx.Client, sandbox: SandboxAccess) -> None:
    answer = api.get(f"/sandboxes/{sandbox.id}-local")

    assert answer.json()["sandboxID"] == sandbox.id


def test_metadata_filters_as_the_clients_encode_them(api: httpx.Client) -> None:
    found = create_sandbox(api, metadata={"a b": "c&d=%", "x": "ü"})
    once = "&".join(f"{quote(k)}={quote(v)}" for k, v in {"a b": "c&d=%", "x": "ü"}.items())
    of_clients = "metadata=" + "%26".join(
        f"{quote(quote(quote(k)))}%3D{quote(quote(quote(v)))}"
        for k, v in {"a b": "c&d=%", "x": "ü"}.items()
    )
    encoded_whole = "metadata=" + quote(quote(once))
    try:
        for query in (of_clients, encoded_whole):
            listed = api.get(f"/v2/sandboxes?{query}").json()
            assert [each["sandboxID"] for each in listed] == [found.id], query
        assert api.get("/v2/sandboxes?metadata=a%252520b%3Dother").json() == []
    finally:
        api.delete(f"/sandboxes/{found.id}")


def test_pages_are_linked_by_a_header(api: httpx.Client) -> None:
    made = [create_sandbox(api, metadata={"page": "1"}) for _ in range(3)]
    seen: list[str] = []
    params: dict[str, str] = {"metadata": "page=1", "limit": "2"}
    pages = 0
    try:
        while True:
            answer = api.get("/v2/sandboxes", params=params)
            pages += 1
            assert answer.headers["x-total-running"] == "3"
            seen += [each["sandboxID"] for each in answer.json()]
            if not answer.headers.get("x-next-token"):
                break
            params["nextToken"] = answer.headers["x-next-token"]
    finally:
        for each in made:
            api.delete(f"/sandboxes/{each.id}")

    assert pages == 2
    assert seen == [each.id for each in reversed(made)]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=x",
        "limit=9999999999999999999999",
        "state=sleeping",
        "order=up",
        "startedAfter=yesterday",
        "startedAfter=2026-01-01T00:00:00",
        "nextToken=bad",
        "metadata=novalue",
        "template=base:tag",
        "template=%ff",
    ],
)
def test_a_wrong_query_of_list_is_400(api: httpx.Client, query: str) -> None:
    check_error(api.get(f"/v2/sandboxes?{query}"), 400)


def test_states_may_be_commas_or_repeated_keys(api: httpx.Client, shared: SandboxAccess) -> None:
    for query in ("state=running,paused", "state=running%2Cpaused", "state=running&state=paused"):
        listed = api.get(f"/v2/sandboxes?{query}").json()
        assert shared.id in [each["sandboxID"] for each in listed]
    assert shared.id not in [
        each["sandboxID"] for each in api.get("/v2/sandboxes?state=paused").json()
    ]


def test_connect_to_a_running_sandbox_is_200(api: httpx.Client, sandbox: SandboxAccess) -> None:
    for body in (b"", b"{}", b'{"timeout":50}'):
        answer = api.post(f"/v2/sandboxes/{sandbox.id}/connect", content=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["envdAccessToken"] == sandbox.token
    check_error(api.post(f"/sandboxes/{sandbox.id}/connect", json={}), 400, "timeout")
    check_error(api.post(f"/sandboxes/{sandbox.id}/connect", json={"timeout": -1}), 400)
    check_error(api.post("/v2/sandboxes/i0/connect", json={}), 404)
    check_error(api.post(f"/sandboxes/{sandbox.id}/resume", json={}), 409, "is already running")


def test_a_resume_may_replace_what_happens_at_the_end(
    api: httpx.Client, sandbox: SandboxAccess
) -> None:
    path = f"/sandboxes/{sandbox.id}"
    assert api.post(f"{path}/pause", json={}).status_code == 204

    check_error(api.post(f"{path}/resume", json={"timeout": -1, "autoPause": True}), 400)
    assert api.get(path).json()["lifecycle"]["onTimeout"] == "kill"

    assert api.post(f"{path}/resume", json={"autoPause": True}).status_code == 201
    assert api.get(path).json()["lifecycle"]["onTimeout"] == "pause"


def test_pause_and_connect(api: httpx.Client, sandbox: SandboxAccess) -> None:
    path = f"/sandboxes/{sandbox.id}"

    assert api.post(f"{path}/pause", json={}).status_code == 204

    check_error(api.post(f"{path}/pause", json={}), 409, "is already paused")
    assert api.get(path).json()["state"] == "paused"
    check_error(api.post(f"{path}/timeout", json={"timeout": 5}), 404)
    with sandbox.client() as client:
        answer = client.get("/health")
        assert answer.status_code == 502
        assert answer.json()["message"] == "The sandbox was not found"
    assert api.post(f"/v2{path}/connect", json={}).status_code == 201
    with sandbox.client() as client:
        assert client.get("/health").status_code == 204


def test_a_pause_may_insist_that_the_sandbox_answers(
    api: httpx.Client, sandbox: SandboxAccess
) -> None:
    path = f"/sandboxes/{sandbox.id}"
    strict = {"memory": False, "requireHealthyGuest": True}
    with sandbox.client() as client, stopped_agent(client):
        check_error(api.post(f"{path}/pause", json=strict), 503, "does not answer")
        assert api.get(path).json()["state"] == "running"

    assert api.post(f"{path}/pause", json=strict).status_code == 204
    check_error(api.post(f"{path}/pause", json=strict), 409, "is already paused")


@contextlib.contextmanager
def stopped_agent(client: httpx.Client) -> Iterator[None]:
    """Stop the agent of a sandbox from outside, found as the parent of a process that it starts."""
    mark = f"{secrets.randbelow(1 << 40)}"
    request = {"process": {"cmd": "sleep", "args": [mark]}, "stdin": False}
    with client.stream(
        "POST",
        "/process.Process/Start",
        content=envelope(request),
        headers={"Content-Type": STREAM},
    ) as answer:
        next(answer.iter_raw())
        agent = parent_of(f"sleep\0{mark}\0".encode())
        os.kill(agent, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(agent, signal.SIGCONT)


def parent_of(command_line: bytes) -> int:
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes() == command_line:
                return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError("the process was not found")


def test_timeouts_and_refreshes(api: httpx.Client, sandbox: SandboxAccess) -> None:
    path = f"/sandboxes/{sandbox.id}"

    assert api.post(f"{path}/timeout", json={"timeout": 900}).status_code == 204
    assert api.post(f"{path}/refreshes", json={}).status_code == 204
    assert api.post(f"{path}/refreshes").status_code == 204
    check_error(api.post(f"{path}/refreshes", json={"duration": 3601}), 400)
    check_error(api.post(f"{path}/timeout", json={}), 400, "validation error:")
    check_error(api.post("/sandboxes/i0/timeout", json={"timeout": 5}), 404)
    assert api.post(f"{path}/timeout", json={"timeout": -5}).status_code == 204


def test_network_update_is_validated(api: httpx.Client, sandbox: SandboxAccess) -> None:
    path = f"/sandboxes/{sandbox.id}/network"

    assert api.put(path, json={"allow_internet_access": False}).status_code == 204
    check_error(api.put(path, json={"denyOut": ["example.com"]}), 400)
    check_error(api.put(path, json={"denyOut": 1}), 400, "validation error:")


def test_metrics_and_logs(api: httpx.Client, sandbox: SandboxAccess) -> None:
    path = f"/sandboxes/{sandbox.id}"

    assert isinstance(api.get(f"{path}/metrics").json(), list)
    check_error(api.get(f"{path}/metrics?start=5&end=4"), 400)
    check_error(api.get(f"{path}/metrics?start=x"), 400)
    assert set(api.get(f"/sandboxes/metrics?sandbox_ids={sandbox.id}").json()) == {"sandboxes"}
    check_error(api.get("/sandboxes/metrics"), 400)
    check_error(api.get("/sandboxes/metrics?sandbox_ids=" + ",".join(["i0"] * 101)), 400)
    old = api.get(f"{path}/logs").json()
    assert len(old["logs"]) == len(old["logEntries"]) >= 1
    assert "level" in json.loads(old["logs"][0]["line"])
    assert len(api.get(f"/v2{path}/logs?direction=forward").json()["logs"]) >= 1
    check_error(api.get(f"/v2{path}/logs?limit=1001"), 400)
    check_error(api.get(f"/v2{path}/logs?level=loud"), 400)
    check_error(api.get(f"/v2{path}/logs?search={'x' * 257}"), 400)


def test_a_repeated_create_gives_the_same_sandbox(api: httpx.Client) -> None:
    headers = {"Idempotency-Key": "service-test"}

    first = api.post("/v2/sandboxes", json={"templateID": "base"}, headers=headers)
    again = api.post("/v2/sandboxes", json={"templateID": "base"}, headers=headers)
    other = api.post("/v2/sandboxes", json={"templateID": "base", "timeout": 9}, headers=headers)

    assert first.json()["sandboxID"] == again.json()["sandboxID"]
    check_error(other, 422)
    api.delete(f"/sandboxes/{first.json()['sandboxID']}")


def test_preflight_requests_need_no_key(engine: EngineProcess) -> None:
    headers = {"Origin": "https://x", "Access-Control-Request-Headers": "x-api-key"}

    answer = httpx.options(
        f"{engine.url}/v2/sandboxes", headers=headers, trust_env=False, timeout=PATIENCE
    )

    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-headers"] == "x-api-key"
    assert "DELETE" in answer.headers["access-control-allow-methods"]


def test_the_engine_describes_itself(api: httpx.Client) -> None:
    info = api.get("/engine/info").json()

    assert info["tier"] in ("namespaces", "landlock", "none")
    assert "terminal-replay" in info["features"]
    text = api.get("/engine/metrics").text
    assert 'sbx_requests_total{method="GET",status="200",surface="platform"}' in text
    assert "sbx_sandboxes_running" in text
    check_error(api.get("/engine/info", headers={"X-API-Key": "x"}), 401)


def test_the_description_names_every_route(api: httpx.Client) -> None:
    described = api.get("/openapi.json").json()

    assert described["openapi"] == "3.1.0"
    assert "/v2/sandboxes/{sandboxID}/connect" in described["paths"]
    assert "/filesystem.Filesystem/ListDir" in described["paths"]
    assert "/files/compose" in described["paths"]


def test_a_sandbox_is_renamed_running_and_paused(api: httpx.Client, sandbox: SandboxAccess) -> None:
    route = f"/engine/sandboxes/{sandbox.id}"

    first = api.patch(route, json={"metadata": {"name": "new name", "team": "blue"}})
    api.post(f"/sandboxes/{sandbox.id}/pause").raise_for_status()
    second = api.patch(route, json={"metadata": {"name": "newer", "team": None}})

    assert first.json()["metadata"] == {"name": "new name", "team": "blue"}
    assert second.json()["metadata"] == {"name": "newer"}
    assert api.get(f"/sandboxes/{sandbox.id}").json()["metadata"] == {"name": "newer"}
    check_error(api.patch(route, json={"metadata": {"name": 1}}), 400, "validation error:")
    check_error(api.patch("/engine/sandboxes/i0", json={"metadata": {}}), 404)
