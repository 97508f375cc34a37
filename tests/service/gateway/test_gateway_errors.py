"""What the gateway and the network interface answer in the wrong state (interface 2.4, 8, 9)."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from sbx_jupyter.errors import (
    AbortedError,
    InternalError,
    NoSpaceError,
    ResourceExhaustedError,
    SbxError,
)
from sbx_jupyter.protocol.access import Route
from sbx_jupyter.service.gateway.error_responses import ErrorResponse, GatewayError
from sbx_jupyter.service.gateway.gateway import open_port
from tests.checks import check_error, check_gateway_error
from tests.engine_process import EngineProcess, start_engine
from tests.service.conftest import SandboxAccess, create_sandbox
from tests.service.rpc import envelope
from tests.waiting import until

LIMIT = 4
NOT_FOUND = "The sandbox was not found"
PATIENCE = 30.0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ResourceExhaustedError("too many files are open in it"), 429),
        (NoSpaceError("its disk is full"), 429),
        (InternalError("it answered with other descriptors"), 502),
    ],
)
async def test_whatever_its_agent_says_a_port_has_an_answer(error: SbxError, status: int) -> None:
    async def connect_port(port: int) -> None:
        raise error

    async def live(sandbox_id: str, *, wake: object) -> object:
        return SimpleNamespace(connect_port=connect_port)

    row = SimpleNamespace(traffic_token=None, network=None)
    sandboxes = SimpleNamespace(get=lambda sandbox_id: row, live=live)
    service: Any = SimpleNamespace(engine=SimpleNamespace(sandboxes=sandboxes))
    request: Any = SimpleNamespace(headers={})
    with pytest.raises(GatewayError) as raised:
        await open_port(service, request, Route("i0", 8080))
    assert raised.value.response.status == status
    assert raised.value.response.body["message"] == error.message


@pytest.fixture(scope="module")
def small() -> Iterator[EngineProcess]:
    """An engine with room for two sandboxes and a few connections to each."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        found = start_engine(
            Path(folder) / "data", "--pool-size", "0", "--SbxEngine.max_sandboxes=2",
            f"--SbxEngine.max_connections_per_sandbox={LIMIT}",
        )  # fmt: skip
        try:
            yield found
        finally:
            assert found.stop() == 0


@pytest.fixture
def api(small: EngineProcess) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=small.url, headers={"X-API-Key": small.key}, trust_env=False, timeout=60
    ) as client:
        yield client
        for found in client.get("/v2/sandboxes", params={"state": "running,paused"}).json():
            client.delete(f"/sandboxes/{found['sandboxID']}")


def pause(api: httpx.Client, sandbox: SandboxAccess, **body: Any) -> None:
    assert api.post(f"/sandboxes/{sandbox.id}/pause", json=body).status_code == 204


def check_missing(sandbox: SandboxAccess, answer: httpx.Response) -> None:
    assert answer.status_code == 502
    assert answer.json() == {"sandboxId": sandbox.id, "message": NOT_FOUND, "code": 502}
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"


def probe(sandbox: SandboxAccess, port: int = 49983, **headers: str) -> httpx.Response:
    with sandbox.client(port) as client:
        return client.get("/health", headers=headers)


def state_of(api: httpx.Client, sandbox: SandboxAccess) -> str:
    return api.get(f"/sandboxes/{sandbox.id}").json()["state"]


@pytest.mark.parametrize("port", [49983, 49999, 8080])
@pytest.mark.parametrize("fate", ["killed", "expired", "paused", "paused to disk"])
def test_a_sandbox_that_does_not_run_is_502(api: httpx.Client, fate: str, port: int) -> None:
    sandbox = create_sandbox(api)
    if fate == "killed":
        api.delete(f"/sandboxes/{sandbox.id}")
    elif fate == "expired":
        api.post(f"/sandboxes/{sandbox.id}/timeout", json={"timeout": 0})
        until(lambda: api.get(f"/sandboxes/{sandbox.id}").status_code == 404)
    else:
        pause(api, sandbox, memory=fate == "paused")

    check_missing(sandbox, probe(sandbox, port))


def test_files_alone_do_not_wake_by_traffic(api: httpx.Client) -> None:
    sandbox = create_sandbox(api, autoPause=True, autoResume={"enabled": True})
    pause(api, sandbox, memory=False)

    check_missing(sandbox, probe(sandbox))
    assert state_of(api, sandbox) == "paused"


def test_a_port_of_a_private_sandbox_wakes_it_with_the_right_token_only(api: httpx.Client) -> None:
    body = {"templateID": "base", "network": {"allowPublicTraffic": False}}
    body |= {"autoPause": True, "autoResume": {"enabled": True}}
    created = api.post("/v2/sandboxes", json=body).json()
    url = str(api.base_url).rstrip("/")
    sandbox = SandboxAccess(created["sandboxID"], created["envdAccessToken"], url)
    pause(api, sandbox)

    for token, text in ((None, "is missing"), ("wrong", "is invalid")):
        headers = {} if token is None else {"E2B-Traffic-Access-Token": token}
        refused = probe(sandbox, 8080, **headers)
        check_gateway_error(refused, 403, text)
        assert refused.json()["sandboxId"] == sandbox.id
    assert state_of(api, sandbox) == "paused"
    token = created["trafficAccessToken"]
    woken = probe(sandbox, 8080, **{"E2B-Traffic-Access-Token": token})
    assert "port is not open" in woken.json()["message"]
    assert state_of(api, sandbox) == "running"


def test_the_runtime_port_wakes_with_the_access_token_only(api: httpx.Client) -> None:
    sandbox = create_sandbox(api, autoPause=True, autoResume={"enabled": True}, timeout=77)
    pause(api, sandbox)
    bare = {"E2b-Sandbox-Id": sandbox.id, "E2b-Sandbox-Port": "49983"}
    missing = httpx.get(f"{sandbox.url}/health", headers=bare, trust_env=False, timeout=PATIENCE)
    signed = httpx.get(
        f"{sandbox.url}/files?path=/etc/hosts&signature=v1_x",
        headers=bare,
        trust_env=False,
        timeout=PATIENCE,
    )

    assert missing.status_code == signed.status_code == 403
    assert missing.json()["message"].endswith("'x-access-token' is missing")
    assert state_of(api, sandbox) == "paused"
    assert probe(sandbox).status_code == 204


def test_there_is_no_room_to_wake_is_429(api: httpx.Client) -> None:
    sleeper = create_sandbox(api, autoPause=True, autoResume={"enabled": True})
    pause(api, sleeper, memory=True)
    others = [api.post("/v2/sandboxes", json={"templateID": "base"}) for _ in range(2)]

    # One paused with its memory takes a place; so there is room for one more only.
    assert others[0].status_code == 201
    check_error(others[1], 429)
    assert probe(sleeper).status_code == 204


def test_too_many_connections_are_429_with_the_limit(
    api: httpx.Client, small: EngineProcess
) -> None:
    sandbox = create_sandbox(api)
    script = (
        "import socket, time\nserver = socket.create_server(('127.0.0.1', 8000))\n"
        "kept = []\nwhile True: kept.append(server.accept())"
    )
    with sandbox.client() as runtime:
        files = {"file": ("serve.py", script)}
        assert runtime.post("/files", params={"path": "serve.py"}, files=files).status_code == 200
        start = {
            "process": {
                "cmd": "/bin/bash",
                "args": ["-c", "setsid python3 ~/serve.py >/dev/null 2>&1 &"],
            },
        }
        body = envelope(start)
        runtime.post(
            "/process.Process/Start",
            content=body,
            headers={"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"},
        )
    head = (
        f"GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {sandbox.id}\r\n"
        "E2b-Sandbox-Port: 8000\r\n\r\n"
    ).encode()
    socks: list[socket.socket] = []

    def refusal() -> httpx.Response | None:
        sock = socket.create_connection(("127.0.0.1", small.port))
        sock.sendall(head)
        socks.append(sock)
        sock.settimeout(0.05)  # a refusal comes at once, an answer never
        try:
            said = sock.recv(65536)
        except TimeoutError:
            return None
        if int(said.split()[1]) != 429:
            return None
        return httpx.Response(429, content=said.partition(b"\r\n\r\n")[2])

    refused = until(refusal)

    assert refused.json() == {
        "sandboxId": sandbox.id,
        "message": "Too many connections to the sandbox",
        "connectionLimit": LIMIT,
        "code": 429,
    }
    assert probe(sandbox).status_code == 204
    for sock in socks:
        sock.close()


def zygote_below(pid: int) -> int | None:
    """The zygote of an engine: its child, or that of the process that is root for it."""
    with suppress(OSError):  # it has ended, or a thread of it has
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
        for child in (int(text) for found in lists for text in found.split()):
            if b"isolation.zygote" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
            if (below := zygote_below(child)) is not None:
                return below
    return None


@contextmanager
def stopped_zygote(engine: EngineProcess) -> Iterator[None]:
    """Nothing can be made meanwhile: what boots is in transition for as long."""
    zygote = zygote_below(engine.pid)
    assert zygote is not None
    os.kill(zygote, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(zygote, signal.SIGCONT)


def test_in_transition_changes_are_409_reads_are_answered_and_traffic_waits(
    api: httpx.Client, small: EngineProcess
) -> None:
    sandbox = create_sandbox(api)
    pause(api, sandbox, memory=False)
    answers: dict[str, httpx.Response] = {}

    def resume() -> None:
        path = f"{small.url}/sandboxes/{sandbox.id}/connect"
        headers = {"X-API-Key": small.key}
        answers["connect"] = httpx.post(
            path, json={"timeout": 60}, headers=headers, trust_env=False, timeout=60
        )

    def knock() -> None:
        answers["traffic"] = probe(sandbox)

    with stopped_zygote(small):
        threads = [threading.Thread(target=resume)]
        threads[0].start()
        path = f"/sandboxes/{sandbox.id}"
        until(lambda: api.post(f"{path}/pause", json={}).status_code == 409 and not answers and
              "already" not in api.post(f"{path}/pause", json={}).json()["message"])  # fmt: skip
        threads.append(threading.Thread(target=knock))
        threads[1].start()
        changes = {
            "pause": api.post(f"{path}/pause", json={}),
            "resume": api.post(f"{path}/resume", json={"timeout": 60}),
            "timeout": api.post(f"{path}/timeout", json={"timeout": 60}),
            "network": api.put(f"{path}/network", json={}),
            "snapshot": api.post(f"{path}/snapshots", json={}),
            "fork": api.post(f"{path}/fork", json={}),
        }
        shown = api.get(path)
        logs = api.get(f"/v2{path}/logs")
        metrics = api.get(f"{path}/metrics")
        waited = "traffic" not in answers
    for thread in threads:
        thread.join()

    for answer in changes.values():
        check_error(answer, 409)
    assert (shown.status_code, logs.status_code, metrics.status_code) == (200, 200, 200)
    assert waited
    assert answers["connect"].status_code == 201
    assert answers["traffic"].status_code == 204


def test_operations_on_a_paused_sandbox(api: httpx.Client) -> None:
    sandbox = create_sandbox(api)
    pause(api, sandbox)
    path = f"/sandboxes/{sandbox.id}"

    assert api.post(f"{path}/pause", json={}).status_code == 409
    assert api.post(f"{path}/fork", json={}).status_code == 409
    for answer in (
        api.post(f"{path}/timeout", json={"timeout": 60}),
        api.put(f"{path}/network", json={}),
        api.post(f"{path}/snapshots", json={}),
        api.post(f"{path}/refreshes", json={}),
    ):
        check_error(answer, 404)
    assert api.get(path).json()["state"] == "paused"
    assert api.get(f"{path}/metrics").status_code == 200
    assert api.get(f"/v2{path}/logs").status_code == 200
    assert api.delete(path).status_code == 204


def test_operations_on_an_unknown_sandbox_are_404(api: httpx.Client) -> None:
    path = "/sandboxes/i0000000000000000000"
    answers = [
        api.post(f"{path}/connect", json={"timeout": 60}),
        api.post(f"{path}/resume", json={"timeout": 60}),
        api.post(f"{path}/pause", json={}),
        api.delete(path),
        api.post(f"{path}/timeout", json={"timeout": 60}),
        api.put(f"{path}/network", json={}),
        api.post(f"{path}/snapshots", json={}),
        api.post(f"{path}/fork", json={}),
        api.get(path),
    ]

    assert [answer.status_code for answer in answers] == [404] * len(answers)


@pytest.mark.parametrize(
    "network",
    [
        {"allowOut": ["example.com"]},
        {"denyOut": ["example.com"]},
        {"dnsServers": ["::1"]},
        {"dnsServers": [f"9.9.9.{n}" for n in range(11)]},
        {"egressProxy": {"address": "no-port"}},
        {"egressProxy": {"address": "a.test:1", "username": "u" * 256}},
        {"egressProxy": {"address": "a.test:1", "tls": {"enabled": True, "caCert": "x"}}},
        {"rules": {f"{n}.test": [] for n in range(11)}},
        {"rules": {"a.test": [{}, {}]}},
        {"rules": {"a.test": [{"transform": {"headers": {"A": "x" * 2049}}}]}},
        {"rules": {"a.test": [{"transform": {"headers": {"A": "x\r\nB: y"}}}]}},
        {"rules": {"a.test": [{"transform": {"headers": {f"A{n}": "" for n in range(21)}}}]}},
        {"httpsPorts": [49983]},
        {"httpsPorts": [0]},
        {"maskRequestHost": "two words"},
    ],
)
def test_a_wrong_network_is_400_and_makes_nothing(
    api: httpx.Client, network: dict[str, Any]
) -> None:
    answer = api.post("/v2/sandboxes", json={"templateID": "base", "network": network})

    check_error(answer, 400)
    assert api.get("/v2/sandboxes").json() == []


def test_what_cannot_be_enforced_is_kept_and_shown_but_for_what_is_secret(
    api: httpx.Client,
) -> None:
    given = {
        "allowOut": ["8.8.8.8", "*.example.com"],
        "denyOut": ["0.0.0.0/0"],
        "dnsServers": ["9.9.9.9"],
        "egressProxy": {"address": "proxy.test:1080", "username": "u", "password": "p4ssw0rd"},
        "rules": {"API.example.com": [{"transform": {"headers": {"X-A": "b"}}}]},
    }
    sandbox = create_sandbox(api, network=given)
    answer = api.get(f"/sandboxes/{sandbox.id}")
    shown = answer.json()["network"]

    assert shown["allowOut"] == given["allowOut"]
    assert shown["dnsServers"] == ["9.9.9.9"]
    assert list(shown["rules"]) == ["api.example.com"]
    assert shown["egressProxy"]["address"] == "proxy.test:1080"
    assert "p4ssw0rd" not in answer.text
    assert api.put(f"/sandboxes/{sandbox.id}/network", json={"denyOut": ["1.1.1.1"]}).is_success
    replaced = api.get(f"/sandboxes/{sandbox.id}").json()["network"]
    assert replaced["denyOut"] == ["1.1.1.1"]
    assert "allowOut" not in replaced
    assert "rules" not in replaced


def test_a_change_that_takes_a_minute_is_409_for_traffic() -> None:
    route = Route("i0000000000000000000", 8080)
    response = ErrorResponse.from_error(AbortedError("whatever"), route)

    assert response.status == response.body["code"] == 409
    assert response.body["message"] == (
        "The sandbox is still transitioning. Try again in a moment."
    )
