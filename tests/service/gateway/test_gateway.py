"""Routing to sandboxes and their ports: interface 2."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import textwrap
import threading
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.checks import check_gateway_error
from tests.engine_process import EngineProcess
from tests.service.conftest import SandboxAccess, create_sandbox
from tests.service.rpc import STREAM, drain, envelope, start_request, unread
from tests.waiting import PATIENCE, until, until_steady

if TYPE_CHECKING:
    from collections.abc import Iterator

OCTETS = {"Content-Type": "application/octet-stream"}
ECHO_SERVER = textwrap.dedent(
    """
    import hashlib, http.server, json, os, socketserver, sys, time, base64

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def body(self):
            digest, size = hashlib.sha256(), 0
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                while (length := int(self.rfile.readline(), 16)):
                    chunk = self.rfile.read(length)
                    digest.update(chunk); size += length
                    self.rfile.readline()
                self.rfile.readline()
            else:
                left = int(self.headers.get("Content-Length") or 0)
                while left:
                    chunk = self.rfile.read(min(left, 1 << 20))
                    digest.update(chunk); size += len(chunk); left -= len(chunk)
            return digest.hexdigest(), size

        def reply(self, payload, *headers):
            self.send_response(200)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(payload)

        def handle_any(self):
            digest, size = self.body()
            if self.path == "/large":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                block = bytes(1 << 20)
                for _ in range(200):
                    self.wfile.write(b"%x\\r\\n%b\\r\\n" % (len(block), block))
                self.wfile.write(b"0\\r\\n\\r\\n")
            elif self.path == "/until-close":
                head = b"HTTP/1.0 200 OK\\r\\nContent-Type: text/plain\\r\\n\\r\\n"
                self.wfile.write(head + b"to the end")
                self.close_connection = True
            elif self.path == "/chunked":
                head = b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
                self.wfile.write(head + b"4\\r\\none \\r\\n3\\r\\ntwo\\r\\n0\\r\\n\\r\\n")
            elif self.path == "/two-lengths":
                head = b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n"
                end = b"Content-Length: 9\\r\\n\\r\\n4\\r\\none \\r\\n0\\r\\n\\r\\n"
                self.wfile.write(head + end)
            elif self.path == "/switched":
                self.wfile.write(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: x\\r\\n\\r\\n")
                self.reply(b"the answer")
            elif self.path == "/cut":
                self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\nshort")
                self.close_connection = True
            elif self.path == "/silent":
                self.close_connection = True
            elif self.path == "/garbage":
                self.wfile.write(b"this is not http\\r\\n\\r\\n")
                self.close_connection = True
            elif self.path == "/execute?forged":  # as if the engine said it
                self.reply(b'{"cpu_ns": 1}\\n', ("Sbx-Usage", "1"))
            elif self.path == "/slow":
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for number in range(3):
                    self.wfile.write(b"data: %d\\n\\n" % number); self.wfile.flush()
                    while number == 0 and not os.path.exists("/tmp/heard"):
                        time.sleep(0.05)
                self.close_connection = True
            elif self.path == "/204":
                self.send_response(204); self.end_headers()
            elif self.path == "/early":
                self.send_response(413)
                self.send_header("Content-Length", "0")
                self.end_headers()
                self.close_connection = True
            elif "websocket" in self.headers.get("Upgrade", ""):
                key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                accept = base64.b64encode(hashlib.sha1(key.encode()).digest())
                self.wfile.write(
                    b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\n"
                    b"Connection: Upgrade\\r\\n"
                    b"Sec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\nready"
                )
                while (data := self.connection.recv(65536)):
                    self.connection.sendall(data[::-1])
                self.close_connection = True
            else:
                headers = [[name, value] for name, value in self.headers.items()]
                seen = {"method": self.command, "path": self.path, "headers": headers,
                        "sha256": digest, "size": size}
                self.reply(json.dumps(seen).encode(), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"))

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = handle_any
        do_PROPFIND = handle_any

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    open(f"/tmp/echo-{sys.argv[1]}", "w").close()
    server.serve_forever()
    """
)


def serve_echo(sandbox: SandboxAccess, number: int = 8080) -> None:
    with sandbox.client() as client:
        client.post(
            "/files?path=/tmp/echo.py",
            content=ECHO_SERVER.encode(),
            headers={"Content-Type": "application/octet-stream"},
        )
        with client.stream(
            "POST",
            "/process.Process/Start",
            content=envelope(start_request(f"exec python3 /tmp/echo.py {number}")),
            headers={"Content-Type": STREAM},
        ) as answer:
            next(answer.iter_raw())
        until(lambda: client.get(f"/files?path=/tmp/echo-{number}").status_code == 200)


@pytest.fixture(scope="module")
def echo(shared: SandboxAccess) -> SandboxAccess:
    """The shared sandbox with a server on port 8080 that says what it received."""
    serve_echo(shared)
    return shared


@pytest.fixture
def port(echo: SandboxAccess) -> Iterator[httpx.Client]:
    with echo.client(8080) as client:
        yield client


@pytest.mark.parametrize(
    ("host", "headers", "text"),
    [
        ("nodot", {}, "Invalid host"),
        ("nodash.example.com", {}, "Invalid host"),
        ("8080-i0.", {}, None),
        ("8080-I_0.example.com", {}, "Invalid sandbox ID"),
        ("8080-a-b-c.example.com", {}, "Invalid sandbox ID"),
        ("x-i0.example.com", {}, "Invalid sandbox port"),
        ("0-i0.example.com", {}, "Invalid sandbox port"),
        ("65536-i0.example.com", {}, "Invalid sandbox port"),
        ("localhost", {"E2b-Sandbox-Id": "i0"}, "missing header"),
        ("localhost:99", {"E2b-Sandbox-Port": "1"}, "missing header"),
        ("127.0.0.1", {"E2b-Sandbox-Id": "I_0", "E2b-Sandbox-Port": "1"}, "Invalid sandbox ID"),
        ("[::1]:9", {"E2b-Sandbox-Id": "i0", "E2b-Sandbox-Port": "x"}, "Invalid sandbox port"),
        ("sandbox.x", {"E2b-Sandbox-Id": "i0", "E2b-Sandbox-Port": "-1"}, "Invalid sandbox port"),
    ],
)
def test_what_cannot_be_routed_is_400_as_text(
    engine: EngineProcess, host: str, headers: dict[str, str], text: str | None
) -> None:
    answer = httpx.get(
        engine.url, headers={"Host": host, **headers}, trust_env=False, timeout=PATIENCE
    )

    if text is None:
        assert answer.status_code == 502
    else:
        assert (answer.status_code, answer.text) == (400, text)
        assert answer.headers["content-type"].startswith("text/plain")


def test_runtime_routes_without_routing_are_400(engine: EngineProcess) -> None:
    for path in ("/filesystem.Filesystem/Stat", "/process.Process/List", "/files", "/envs"):
        answer = httpx.post(f"{engine.url}{path}", trust_env=False, timeout=PATIENCE)
        assert (answer.status_code, answer.text) == (400, "Invalid host")


@pytest.mark.parametrize(
    "path",
    ["/process.Process/Start", "/files?path=a&signature=v1_x", "/metrics", "/execute", "/none"],
)
def test_the_preflight_of_a_browser_needs_no_routing(engine: EngineProcess, path: str) -> None:
    asked = "e2b-sandbox-id,e2b-sandbox-port,x-access-token"
    headers = {
        "Origin": "https://page.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": asked,
    }

    answer = httpx.options(
        f"{engine.url}{path}", headers=headers, trust_env=False, timeout=PATIENCE
    )

    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-headers"] == asked
    assert "POST" in answer.headers["access-control-allow-methods"]


def test_routing_headers_on_another_host_are_ignored(
    engine: EngineProcess, echo: SandboxAccess
) -> None:
    headers = {"Host": f"8080-{echo.id}.example.com", **create_headers("i0", 9)}

    assert (
        httpx.get(engine.url, headers=headers, trust_env=False, timeout=PATIENCE).status_code == 200
    )


def create_headers(sandbox_id: str, port: int) -> dict[str, str]:
    return {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": str(port)}


def test_an_unknown_sandbox_is_502(engine: EngineProcess) -> None:
    for port in (49983, 49999, 8080):
        answer = httpx.get(
            f"{engine.url}/health",
            headers=create_headers("i0", port),
            trust_env=False,
            timeout=PATIENCE,
        )
        assert answer.status_code == 502
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.json() == {
            "sandboxId": "i0",
            "message": "The sandbox was not found",
            "code": 502,
        }


def test_a_closed_port_is_502(engine: EngineProcess, shared: SandboxAccess) -> None:
    answer = httpx.post(
        engine.url,
        headers=create_headers(shared.id, 4),
        content=b"x" * 100_000,
        trust_env=False,
        timeout=PATIENCE,
    )

    assert answer.status_code == 502
    assert answer.json() == {
        "sandboxId": shared.id,
        "message": "The sandbox is running but port is not open",
        "port": 4,
        "code": 502,
    }


def test_a_person_with_a_browser_gets_a_page(engine: EngineProcess) -> None:
    browser = {"User-Agent": "Mozilla/5.0", "Accept": "text/html,*/*", **create_headers("i0", 80)}

    page = httpx.get(engine.url, headers=browser, trust_env=False, timeout=PATIENCE)

    assert page.status_code == 502
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "The sandbox was not found" in page.text
    for scripted in (
        {"Accept": "application/json"},
        {"Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Mode": "websocket"},
        {"X-Requested-With": "fetch"},
        {"User-Agent": "python"},
    ):
        answer = httpx.get(
            engine.url, headers={**browser, **scripted}, trust_env=False, timeout=PATIENCE
        )
        check_gateway_error(answer, 502)


@pytest.mark.parametrize(
    "path",
    ["/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade", "/%69nit"],
)
def test_internal_routes_are_hidden(runtime: httpx.Client, path: str) -> None:
    answer = runtime.post(path, json={})

    check_gateway_error(answer, 404, "is not available")
    assert answer.json()["path"] == path


def test_requests_reach_the_port_as_they_were_sent(port: httpx.Client, echo: SandboxAccess) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
        answer = port.request(
            method, "/a%2Fb/?q=%20x&q=2", headers={"X-Own": "1", "Cookie": "c=3"}, content=b"body"
        )
        seen = answer.json()
        headers = {name.lower(): value for name, value in seen["headers"]}
        assert (seen["method"], seen["path"]) == (method, "/a%2Fb/?q=%20x&q=2")
        assert (headers["x-own"], headers["cookie"]) == ("1", "c=3")
        assert headers["host"] == echo.url.removeprefix("http://")
        assert (seen["size"], seen["sha256"]) == (4, hashlib.sha256(b"body").hexdigest())
        assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]


def test_chunked_bodies_of_every_method_arrive_whole(port: httpx.Client) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "PROPFIND"):
        seen = port.request(method, "/", content=iter([b"one", b"two", b"x" * 100_000])).json()
        assert seen["size"] == 100_006, method


def test_head_and_204_have_no_body(port: httpx.Client) -> None:
    assert port.head("/").headers["content-length"] != "0"
    assert port.get("/204").status_code == 204
    assert port.get("/").status_code == 200


def test_large_bodies_pass_in_constant_memory(engine: EngineProcess, port: httpx.Client) -> None:
    block = os.urandom(1 << 20)
    digest = hashlib.sha256()

    def blocks():
        for _ in range(200):
            digest.update(block)
            yield block

    before = engine.resident_mb()
    seen = port.post("/", content=blocks()).json()
    size = 0
    with port.stream("GET", "/large") as answer:
        for chunk in answer.iter_raw():
            size += len(chunk)

    assert (seen["size"], seen["sha256"]) == (200 << 20, digest.hexdigest())
    assert size == 200 << 20
    assert engine.resident_mb() - before < 64


def test_a_reader_that_waits_makes_the_port_wait(
    engine: EngineProcess, echo: SandboxAccess
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in create_headers(echo.id, 8080).items())
    before = engine.resident_mb()
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        sock.sendall(f"GET /large HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        until_steady(lambda: unread(sock))  # the client's buffer is full
        until_steady(lambda: int(engine.resident_mb()))

        assert engine.resident_mb() - before < 32


def test_an_answer_comes_piece_by_piece(echo: SandboxAccess, port: httpx.Client) -> None:
    with port.stream("GET", "/slow") as answer, echo.client() as client:
        pieces = answer.iter_raw()
        first = next(pieces)
        # The server goes on when its first piece was heard, and not before.
        client.post("/files?path=/tmp/heard", content=b"", headers=OCTETS).raise_for_status()
        rest = b"".join(pieces)

    assert first == b"data: 0\n\n"
    assert rest == b"data: 1\n\ndata: 2\n\n"


def test_an_answer_that_ends_with_the_connection_is_whole(port: httpx.Client) -> None:
    assert port.get("/until-close").text == "to the end"


def test_a_cut_answer_is_no_whole_one(port: httpx.Client) -> None:
    with pytest.raises(httpx.TransportError):
        port.get("/cut")


def test_a_port_that_says_nothing_sensible_is_502(port: httpx.Client) -> None:
    for path in ("/silent", "/garbage"):
        answer = port.get(path)
        assert answer.status_code == 502
        assert answer.json()["port"] == 8080
    assert port.get("/").status_code == 200


def test_an_early_answer_ends_the_upload(port: httpx.Client) -> None:
    answer = port.post("/early", content=b"x" * 1000)

    assert answer.status_code == 413


def test_one_connection_serves_platform_runtime_and_ports_in_turn(
    engine: EngineProcess, api: httpx.Client, echo: SandboxAccess, sandbox: SandboxAccess
) -> None:
    lines = [
        f"GET /health HTTP/1.1\r\nHost: localhost\r\n{_lines(create_headers(echo.id, 49983))}\r\n",
        f"GET / HTTP/1.1\r\nHost: localhost\r\n{_lines(create_headers(echo.id, 8080))}\r\n",
        f"GET / HTTP/1.1\r\nHost: 8080-{echo.id}.x.y\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: localhost\r\n{_lines(create_headers(sandbox.id, 8080))}\r\n",
        f"GET /sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {engine.key}\r\n\r\n",
    ]
    statuses = []
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        reader = sock.makefile("rb")
        for line in lines:
            sock.sendall(line.encode())
            statuses.append(_read_answer(reader))

    assert statuses == [204, 200, 200, 502, 200]


def _lines(headers: dict[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def _read_answer(reader) -> int:
    status = int(reader.readline().split()[1])
    length = 0
    while (line := reader.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    reader.read(length)
    return status


def test_a_websocket_passes_untouched(engine: EngineProcess, echo: SandboxAccess) -> None:
    key = base64.b64encode(os.urandom(16)).decode()
    head = (
        f"GET /ws HTTP/1.1\r\nHost: localhost\r\n{_lines(create_headers(echo.id, 8080))}"
        f"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    )
    accept = base64.b64encode(
        hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    )
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        sock.sendall(head.encode())
        received = b""
        while not received.endswith(b"ready"):
            received += sock.recv(65536)
        assert received.startswith(b"HTTP/1.1 101 ")
        assert accept in received
        sock.sendall(b"\x81\x03abc\0\xff")
        assert sock.recv(65536) == b"\x81\x03abc\0\xff"[::-1]
        sock.shutdown(socket.SHUT_WR)


def test_a_refused_upgrade_is_an_ordinary_answer(port: httpx.Client) -> None:
    answer = port.get("/", headers={"Connection": "Upgrade", "Upgrade": "h2c"})

    assert answer.status_code == 200
    assert answer.headers["connection"] == "close"
    assert port.get("/").status_code == 200


def test_a_switch_that_nobody_asked_for_is_not_passed_on(port: httpx.Client) -> None:
    answer = port.get("/switched")

    assert (answer.status_code, answer.text) == (200, "the answer")


def test_a_client_of_http_1_0_gets_the_content_of_chunks(
    engine: EngineProcess, echo: SandboxAccess
) -> None:
    head = (
        f"GET /chunked HTTP/1.0\r\nHost: localhost\r\n{_lines(create_headers(echo.id, 8080))}\r\n"
    )
    received = b""
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        sock.sendall(head.encode())
        while piece := sock.recv(65536):
            received += piece

    assert received.partition(b"\r\n\r\n")[2] == b"one two"


def test_an_answer_with_two_lengths_is_broken_off(port: httpx.Client) -> None:
    with pytest.raises(httpx.TransportError):
        port.get("/two-lengths")


def test_200_connections_at_once(port: httpx.Client, echo: SandboxAccess) -> None:
    results: list[int] = []

    def one() -> None:
        answer = httpx.get(echo.url, headers=echo.headers(8080), trust_env=False, timeout=30)
        results.append(answer.status_code)

    threads = [threading.Thread(target=one) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [200] * 100


def test_a_private_sandbox_needs_its_traffic_token(
    engine: EngineProcess, api: httpx.Client
) -> None:
    body = {"templateID": "base", "network": {"allowPublicTraffic": False}}
    created = api.post("/v2/sandboxes", json=body).json()
    sandbox = SandboxAccess(created["sandboxID"], created["envdAccessToken"], engine.url)
    token = created["trafficAccessToken"]
    try:
        with sandbox.client(8080) as client:
            missing = client.get("/")
            wrong = client.get("/", headers={"E2B-Traffic-Access-Token": "x"})
            right = client.get("/", headers={"E2B-Traffic-Access-Token": token})
        with sandbox.client() as client:
            assert client.get("/health").status_code == 204
    finally:
        api.delete(f"/sandboxes/{sandbox.id}")

    header = "header 'e2b-traffic-access-token'"
    check_gateway_error(missing, 403, f"Token {header} is missing")
    check_gateway_error(wrong, 403, f"Provided token in {header} is invalid")
    check_gateway_error(right, 502)


def test_the_host_can_be_masked(engine: EngineProcess, api: httpx.Client) -> None:
    sandbox = create_sandbox(api, network={"maskRequestHost": "inner.test:${PORT}"})
    try:
        serve_echo(sandbox)
        host = f"8080-{sandbox.id}.example.com"
        seen = httpx.get(
            engine.url, headers={"Host": host}, trust_env=False, timeout=PATIENCE
        ).json()
    finally:
        api.delete(f"/sandboxes/{sandbox.id}")

    headers = {name.lower(): value for name, value in seen["headers"]}
    assert headers["host"] == "inner.test:8080"
    assert headers["x-forwarded-host"] == host


def test_a_killed_sandbox_cuts_its_open_answers(engine: EngineProcess, api: httpx.Client) -> None:
    sandbox = create_sandbox(api)
    serve_echo(sandbox)
    lines = _lines(create_headers(sandbox.id, 8080))
    with socket.create_connection(("127.0.0.1", engine.port), timeout=10) as sock:
        sock.sendall(f"GET /large HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        sock.recv(1000)

        api.delete(f"/sandboxes/{sandbox.id}")

        with pytest.raises(ConnectionResetError):
            drain(sock)


def test_traffic_wakes_a_sandbox_that_may_be_woken(api: httpx.Client) -> None:
    sandbox = create_sandbox(api, autoPause=True, autoResume={"enabled": True})
    try:
        api.post(f"/sandboxes/{sandbox.id}/pause", json={})
        with sandbox.client() as client:
            refused = client.get("/health", headers={"X-Access-Token": "wrong"})
            woken = client.get("/health")
    finally:
        api.delete(f"/sandboxes/{sandbox.id}")

    check_gateway_error(refused, 403)
    assert woken.status_code == 204
