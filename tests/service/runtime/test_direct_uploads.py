"""Raw bodies that go from the socket into the file, past tornado's buffers."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.service.rpc import run
from tests.waiting import until

if TYPE_CHECKING:
    import httpx

    from tests.engine_process import EngineProcess
    from tests.service.conftest import SandboxAccess


def send_head(
    engine: EngineProcess, sandbox: SandboxAccess, path: str, size: int, *extra: str
) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", engine.port), timeout=20)
    headers = {**sandbox.headers(), "Content-Type": "application/octet-stream"}
    lines = [f"POST /files?path={path} HTTP/1.1", "Host: localhost", f"Content-Length: {size}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    sock.sendall("\r\n".join([*lines, *extra, "", ""]).encode())
    return sock


def read_status(sock: socket.socket) -> int:
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = sock.recv(4096)
        assert piece, answer
        answer += piece
    return int(answer.split()[1])


def test_a_client_that_expects_100_is_told_to_go_on(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    with send_head(engine, shared, "expected", 5, "Expect: 100-continue") as sock:
        assert read_status(sock) == 100
        sock.sendall(b"hello")
        assert read_status(sock) == 200
    assert runtime.get("/files?path=expected").content == b"hello"


def test_the_connection_takes_the_next_request_after_an_upload(
    engine: EngineProcess, shared: SandboxAccess
) -> None:
    with send_head(engine, shared, "first", 3) as sock:
        sock.sendall(b"abcGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while received.count(b"HTTP/1.1 ") < 2:
            piece = sock.recv(65536)
            assert piece, received
            received += piece
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", b"204"]


def test_the_connection_takes_the_next_request_after_a_write_that_failed(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    size = 3 << 20
    code, room = run(runtime, "df -B1 --output=avail /dev/shm | tail -1")
    if code or int(room) > 1 << 30:
        pytest.skip("the sandbox has no /dev/shm of limited size to fill")
    run(runtime, "cat /dev/zero > /dev/shm/full")
    with send_head(engine, shared, "/dev/shm/more", size) as sock:
        sock.sendall(bytes(size) + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while received.count(b"HTTP/1.1 ") < 2:
            piece = sock.recv(65536)
            assert piece, received
            received += piece
    run(runtime, "rm -f /dev/shm/full /dev/shm/more")
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"507", b"204"]


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5_000_003])
def test_every_byte_arrives_in_order(runtime: httpx.Client, size: int) -> None:
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    answer = runtime.post(
        "/files?path=sized",
        content=content,
        headers={"Content-Type": "application/octet-stream"},
    )
    assert answer.status_code == 200
    assert runtime.get("/files?path=sized").content == content


def test_a_body_that_trickles_is_written_as_it_comes(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    rest = bytes(2 << 20)
    with send_head(engine, shared, "trickle", 3 + len(rest)) as sock:
        sock.sendall(b"abc")
        until(lambda: runtime.get("/files?path=trickle").content == b"abc")
        sock.sendall(rest)
        assert read_status(sock) == 200
    assert runtime.get("/files?path=trickle").content == b"abc" + rest


def test_what_came_before_the_client_left_stays(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    with send_head(engine, shared, "half", 1 << 30) as sock:
        sock.sendall(bytes(3 << 20))
    until(lambda: len(runtime.get("/files?path=half").content) == 3 << 20)


@pytest.mark.parametrize("size", [1000, 3 << 20])
@pytest.mark.parametrize("kind", ["raw", "chunked", "multipart"])
def test_earlier_content_survives_a_client_that_leaves(
    engine: EngineProcess,
    shared: SandboxAccess,
    runtime: httpx.Client,
    api: httpx.Client,
    kind: str,
    size: int,
) -> None:
    octets = {"Content-Type": "application/octet-stream"}
    nameless = count_nameless(engine)
    assert runtime.post("/files?path=kept", content=b"earlier", headers=octets).is_success
    received = read_received(api)
    with start_upload(engine, shared, kind) as sock:
        sock.sendall(b"%x\r\n" % (size + 1) if kind == "chunked" else b"")
        sock.sendall(bytes(size))
        until(lambda: read_received(api) >= received + size)
    until(lambda: count_nameless(engine) == nameless)
    assert runtime.get("/files?path=kept").content == b"earlier"


def start_upload(engine: EngineProcess, sandbox: SandboxAccess, kind: str) -> socket.socket:
    """Send all of an upload that comes before the content."""
    if kind == "raw":
        return send_head(engine, sandbox, "kept", 1 << 30)
    sock = socket.create_connection(("127.0.0.1", engine.port), timeout=20)
    headers = {**sandbox.headers(), "Host": "localhost", "Transfer-Encoding": "chunked"}
    headers["Content-Type"] = "application/octet-stream"
    part = b""
    if kind == "multipart":
        headers["Content-Type"] = "multipart/form-data; boundary=B"
        headers["Content-Length"] = str(1 << 30)
        del headers["Transfer-Encoding"]
        part = b'--B\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    lines = [f"{name}: {value}" for name, value in headers.items()]
    request = "\r\n".join(["POST /files?path=kept HTTP/1.1", *lines, "", ""])
    sock.sendall(request.encode() + part)
    return sock


def read_received(api: httpx.Client) -> int:
    """How many bytes of bodies the engine has taken."""
    text = api.get("/engine/metrics").text
    return int(float(re.findall(r"^sbx_received_bytes(?:_total)? (\S+)$", text, re.MULTILINE)[0]))


def count_nameless(engine: EngineProcess) -> int:
    """How many files without a name the engine has open."""
    count = 0
    for descriptor in Path(f"/proc/{engine.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(descriptor).endswith(" (deleted)")
    return count


def test_an_unknown_user_is_named(runtime: httpx.Client) -> None:
    answer = runtime.get("/files?path=x&username=nobody-known")
    assert answer.status_code == 401
    assert answer.json()["message"].startswith("error looking up user 'nobody-known': ")


def boot_id(sandbox: SandboxAccess) -> str:
    with sandbox.client() as client:
        return client.get("/files?path=/proc/sys/kernel/random/boot_id").text


def test_the_boot_id_changes_with_a_resume_without_memory_only(
    api: httpx.Client, sandbox: SandboxAccess
) -> None:
    path = f"/sandboxes/{sandbox.id}"
    seen = [boot_id(sandbox)]
    for memory in (True, False):
        assert api.post(f"{path}/pause", json={"memory": memory}).status_code == 204
        assert api.post(f"/v2{path}/connect", json={"timeout": 60}).status_code == 201
        seen.append(boot_id(sandbox))
    assert seen[0] == seen[1] != seen[2]
    assert Path("/proc/sys/kernel/random/boot_id").read_text() not in seen
