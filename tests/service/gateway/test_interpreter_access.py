"""Who reaches the interpreter and the egress proxy of a sandbox through the gateway."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator

import httpx
import pytest

from sbx_jupyter.protocol.runtime import INTERPRETER_PORT, PROXY_PORT
from sbx_jupyter.service.gateway.interpreter_access import MAX_OPEN_BODY
from sbx_jupyter.service.open_call_limits import BURST, MAX_BUCKETS, OpenCallLimits
from tests.service.conftest import SandboxAccess
from tests.service.gateway.test_gateway import serve_echo

CODE = {"code": "open('/tmp/ran', 'w').close(); 6 * 7"}


def interpreter(sandbox: SandboxAccess, token: str | None) -> httpx.Client:
    headers = sandbox.headers(INTERPRETER_PORT)
    del headers["X-Access-Token"]
    if token is not None:
        headers["X-Access-Token"] = token
    return httpx.Client(base_url=sandbox.url, headers=headers, trust_env=False, timeout=60)


@pytest.fixture
def stranger(sandbox: SandboxAccess) -> Iterator[httpx.Client]:
    with interpreter(sandbox, None) as client:
        yield client


def has_run(sandbox: SandboxAccess) -> bool:
    with sandbox.client() as client:
        return client.get("/files?path=/tmp/ran").status_code == 200


@pytest.mark.parametrize("token", [None, "", "wrong"])
def test_code_needs_the_token(sandbox: SandboxAccess, token: str | None) -> None:
    with interpreter(sandbox, token) as client:
        answer = client.post("/execute", json=CODE)

    assert answer.status_code == 401
    assert answer.json()["sandboxId"] == sandbox.id
    assert "access token" in answer.json()["message"]
    assert not has_run(sandbox)
    with interpreter(sandbox, sandbox.token) as client:
        assert '"text": "42"' in client.post("/execute", json=CODE).text
    assert has_run(sandbox)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/execute?x=/contexts"),
        ("POST", "/%65xecute"),
        ("POST", "/contexts/../execute"),
        ("POST", "/contexts/..%2fexecute"),
        ("POST", "/contexts/../execute/restart"),
        ("POST", "//execute"),
        ("POST", "/health"),
        ("PUT", "/contexts"),
        ("GET", "/"),
    ],
)
def test_only_the_named_routes_are_open(stranger: httpx.Client, method: str, path: str) -> None:
    request = stranger.build_request(method, "/", json=CODE)
    request.url = request.url.copy_with(raw_path=path.encode())

    assert stranger.send(request).status_code == 401


def test_an_upgrade_is_no_way_around(stranger: httpx.Client) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}

    assert stranger.get("/contexts", headers=headers).status_code == 401


def test_contexts_and_health_need_no_token(stranger: httpx.Client) -> None:
    assert stranger.get("/health").json() == "OK"
    made = stranger.post("/contexts", json={"cwd": "/tmp"}).json()

    assert made in stranger.get("/contexts").json()
    assert stranger.post(f"/contexts/{made['id']}/restart").status_code == 200
    assert stranger.delete(f"/contexts/{made['id']}").status_code == 200


def test_a_body_without_a_token_is_small(sandbox: SandboxAccess, stranger: httpx.Client) -> None:
    def in_pieces() -> Iterator[bytes]:
        yield b'{"cwd":"'
        for _ in range(MAX_OPEN_BODY // 1024 + 1):
            yield b"x" * 1024
        yield b'"}'

    known = len(stranger.get("/contexts").json())
    for content in (b"x" * (MAX_OPEN_BODY + 1), in_pieces()):
        assert stranger.post("/contexts", content=content).status_code == 413
    assert len(stranger.get("/contexts").json()) == known
    with interpreter(sandbox, sandbox.token) as client:
        assert client.post("/contexts", content=b"x" * (MAX_OPEN_BODY + 1)).status_code == 422


def test_calls_without_a_token_are_limited(sandbox: SandboxAccess, stranger: httpx.Client) -> None:
    # Ten times what is allowed at once, so that no speed of this machine refills it.
    answer = stranger.delete("/contexts/unknown")
    for _ in range(10 * BURST):
        if answer.status_code == 429:
            break
        assert answer.status_code == 404
        answer = stranger.delete("/contexts/unknown")

    assert answer.status_code == 429
    assert "without an access token" in answer.json()["message"]
    with interpreter(sandbox, sandbox.token) as client:
        assert client.delete("/contexts/unknown").status_code == 404


def test_a_sandbox_without_a_token_is_open(api: httpx.Client) -> None:
    answer = api.post("/sandboxes", json={"templateID": "base", "secure": False})
    created = SandboxAccess(answer.json()["sandboxID"], "", str(api.base_url).rstrip("/"))
    assert "envdAccessToken" not in answer.json()
    try:
        with interpreter(created, None) as client:
            assert '"text": "42"' in client.post("/execute", json=CODE).text
    finally:
        api.delete(f"/sandboxes/{created.id}")


def test_the_token_stays_outside(sandbox: SandboxAccess) -> None:
    """Whatever listens on the interpreter's port does not see the token."""
    serve_echo(sandbox, INTERPRETER_PORT)

    with interpreter(sandbox, sandbox.token) as client:
        seen = client.post("/execute", content=b"x").json()

    assert seen["path"] == "/execute"
    assert sandbox.token not in str(seen)


def test_an_answer_ends_with_what_the_code_used_only_if_that_is_requested(
    sandbox: SandboxAccess,
) -> None:
    with interpreter(sandbox, sandbox.token) as client:
        plain = client.post("/execute", json=CODE)
        measured = client.post("/execute", json=CODE, headers={"Sbx-Usage": "changes"})

    assert "Sbx-Usage" not in plain.headers
    assert json.loads(plain.text.splitlines()[-1]) == {"type": "end_of_execution"}
    assert measured.headers["Sbx-Usage"] == "1"
    usage = json.loads(measured.text.splitlines()[-1])
    assert usage["mem_used"] > 0
    assert "/tmp/ran" in [change["path"] for change in usage["diff"]["changes"]]


def test_a_sandbox_cannot_say_that_its_last_line_is_the_engines(sandbox: SandboxAccess) -> None:
    serve_echo(sandbox, INTERPRETER_PORT)

    with interpreter(sandbox, sandbox.token) as client:
        answer = client.post("/execute?forged", content=b"x", headers={"Sbx-Usage": "usage"})

    assert answer.text == '{"cpu_ns": 1}\n'
    assert "Sbx-Usage" not in answer.headers


def test_the_egress_proxy_is_not_reachable_from_outside(sandbox: SandboxAccess) -> None:
    def ask(port: int, target: str = "/") -> tuple[int, bytes]:
        place = httpx.URL(sandbox.url).netloc.decode()
        with contextlib.closing(http.client.HTTPConnection(place, timeout=30)) as connection:
            headers = {"Host": place, **sandbox.headers(port)}
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    status, body = ask(PROXY_PORT)
    missing, text = ask(9)

    assert status == missing == 502
    assert json.loads(body) | {"port": 9} == json.loads(text)
    assert json.loads(body)["port"] == PROXY_PORT
    # As clients of a proxy ask: refused before any port is looked for.
    assert ask(PROXY_PORT, "http://example.invalid/") == (400, b"Invalid host")


def test_limits_forget_sandboxes_that_are_idle() -> None:
    now = 0.0
    limits = OpenCallLimits(clock=lambda: now)
    assert limits.try_call("busy", BURST)
    for number in range(MAX_BUCKETS - 1):
        assert limits.try_call(f"idle{number}", 1)
    now = 1.0

    assert limits.try_call("new", 1)

    assert len(limits) == 2
    assert not limits.try_call("busy", BURST)
