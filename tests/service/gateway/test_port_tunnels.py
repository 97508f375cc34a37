"""Connections that the gateway joins to a port of a sandbox as they are."""

from __future__ import annotations

import shlex
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.service.conftest import SandboxAccess, create_sandbox
from tests.service.rpc import STREAM, envelope, start_request
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

PORT = 8123
ECHO = (
    "import socket\n"
    f"server = socket.create_server(('127.0.0.1', {PORT}))\n"
    "while True:\n"
    "    peer, _ = server.accept()\n"
    "    while data := peer.recv(65536):\n"
    "        peer.sendall(data)\n"
)


def ask(sandbox: SandboxAccess, port: int = PORT, token: str | None = None) -> socket.socket:
    """Ask to be joined; the answer was not read."""
    where = urlsplit(sandbox.url)
    headers = sandbox.headers(port) | {"Host": where.netloc, "Upgrade": "sbx-port"}
    if token is not None:
        headers["X-Access-Token"] = token
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    found = socket.create_connection((where.hostname, where.port), 30)
    found.sendall(f"GET / HTTP/1.1\r\n{lines}Connection: Upgrade\r\n\r\n".encode())
    return found


def read_head(found: socket.socket) -> str:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += found.recv(1)
    return head.decode()


@pytest.fixture(scope="module")
def echo(shared: SandboxAccess) -> Iterator[SandboxAccess]:
    with shared.client() as client:
        message = envelope(start_request(f"exec python3 -c {shlex.quote(ECHO)}"))
        url = "/process.Process/Start"
        with client.stream(
            "POST", url, content=message, headers={"Content-Type": STREAM}
        ) as events:
            next(events.iter_raw())
            until(lambda: _is_open(shared), message="the program does not listen")
            yield shared


def _is_open(sandbox: SandboxAccess) -> bool:
    with ask(sandbox) as found:
        return read_head(found).startswith("HTTP/1.1 101")


def test_bytes_pass_as_they_are_with_no_header_of_ours(echo: SandboxAccess) -> None:
    with ask(echo) as found:
        head = read_head(found)
        found.sendall(b"\x00not HTTP\xff" * 1000)
        read = b""
        while len(read) < 10 * 1000:
            read += found.recv(65536)

    assert head.startswith("HTTP/1.1 101 ")
    assert "Upgrade: sbx-port\r\n" in head
    assert read == b"\x00not HTTP\xff" * 1000


@pytest.mark.parametrize(
    ("port", "token", "status"),
    [(PORT, "wrong", 401), (PORT, "", 401), (8999, None, 502), (49999, None, 409)],
)
def test_who_may_not_be_joined_is_told_why(
    echo: SandboxAccess, port: int, token: str | None, status: int
) -> None:
    with ask(echo, port, token) as found:
        assert read_head(found).startswith(f"HTTP/1.1 {status} ")


def test_a_port_whose_host_name_is_masked_is_not_joined(api: httpx.Client) -> None:
    made = create_sandbox(api, network={"maskRequestHost": "app-${PORT}.example"})
    try:
        with ask(made) as found:
            assert read_head(found).startswith("HTTP/1.1 409 ")
    finally:
        api.delete(f"/sandboxes/{made.id}")


def test_the_end_of_the_sandbox_ends_the_connection(api: httpx.Client) -> None:
    made = create_sandbox(api)
    with made.client() as client:
        message = envelope(start_request(f"exec python3 -c {shlex.quote(ECHO)}"))
        with client.stream(
            "POST", "/process.Process/Start", content=message, headers={"Content-Type": STREAM}
        ) as events:
            next(events.iter_raw())
            until(lambda: _is_open(made), message="the program does not listen")
            with ask(made) as found:
                read_head(found)
                api.delete(f"/sandboxes/{made.id}")

                assert found.recv(1) == b""
