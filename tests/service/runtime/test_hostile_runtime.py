"""What hostile clients and files do to an engine, over HTTP: nothing hangs, nothing grows."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.service.rpc import STREAM, envelope, run, start_request, stream, unary
from tests.waiting import Busyness, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine_process import EngineProcess
    from tests.service.conftest import SandboxAccess

OCTETS = {"Content-Type": "application/octet-stream"}
ODD = "/tmp/odd-things"
KINDS = ("fifo", "to-fifo", "sock", "loop", "long-loop", "/dev/zero", "/dev/tty", "/dev/ptmx")
HOSTILE = ("a\0b", "x" * 5000, "/" + "x" * 5000, "/" + "a/" * 3000, "/dev/null/x", "\ud800")
ROOM_MB = 64
"""What an engine may take for one hostile client, for a moment."""


@pytest.fixture(scope="module")
def odd(shared: SandboxAccess) -> Iterator[str]:
    """A folder of things that only look like files."""
    with shared.client() as client:
        code, _ = run(
            client,
            f"rm -rf {ODD}; mkdir {ODD} && cd {ODD} && mkfifo fifo && ln -s loop loop && "
            "ln -s b long-loop && ln -s c b && ln -s long-loop c && ln -s fifo to-fifo && "
            "ln -s /etc/passwd outside && ln -s ../../../../../../../etc up && "
            "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"",
        )
        assert code == 0
        yield ODD
        run(client, f"rm -rf {ODD}")


def place(folder: str, name: str) -> str:
    return name if name.startswith("/") else f"{folder}/{name}"


def processor_seconds(engine: EngineProcess) -> float:
    fields = Path(f"/proc/{engine.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def head(shared: SandboxAccess, path: str, **headers: str) -> bytes:
    """The beginning of a request that is written by hand."""
    given = {"Host": "localhost", **shared.headers(), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode()


def connect(engine: EngineProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", engine.port), timeout=20)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("method", ["Stat", "ListDir", "MakeDir", "Remove", "CreateWatcher"])
def test_no_name_upsets_a_call(runtime: httpx.Client, method: str, name: str) -> None:
    body = b'{"path":"%b"}' % name.encode("ascii", "backslashreplace").replace(b"\x00", b"\\u0000")

    answer = runtime.post(
        f"/filesystem.Filesystem/{method}",
        content=body,
        headers={"Content-Type": "application/json"},
    )

    # Removing what cannot exist is a success.
    assert answer.status_code in ((200, 400, 404, 500) if method == "Remove" else (400, 404, 500))
    assert "Traceback" not in answer.text
    assert len(answer.content) < 20_000


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "/" + "a/" * 3000])
def test_no_name_upsets_a_start_a_watch_or_an_upload(runtime: httpx.Client, name: str) -> None:
    started = stream(runtime, "process.Process/Start", {"process": {"cmd": "true", "cwd": name}})
    watched = stream(runtime, "filesystem.Filesystem/WatchDir", {"path": name})
    moved = {"source": "/etc/hostname", "destination": name}
    files = {"file": (name.replace("\0", "%00"), b"x")}
    composed = {"source_paths": [name], "destination": "/tmp/x"}

    assert started[-1]["error"]["code"] in ("invalid_argument", "internal")
    assert watched[-1]["error"]["code"] in ("invalid_argument", "not_found", "internal")
    assert unary(runtime, "filesystem.Filesystem/Move", moved).status_code in (400, 404, 500)
    assert runtime.post("/files/compose", json=composed).status_code in (400, 404, 500)
    uploaded = runtime.post("/files", files=files)
    assert uploaded.status_code in (200, 400, 500)


@pytest.mark.parametrize("name", KINDS)
def test_what_only_looks_like_a_file_holds_nobody_up(
    runtime: httpx.Client, odd: str, name: str
) -> None:
    path = place(odd, name)
    calls = (
        lambda: runtime.get(f"/files?path={path}"),
        lambda: runtime.head(f"/files?path={path}"),
        lambda: runtime.post(f"/files?path={path}", content=b"x", headers=OCTETS),
        lambda: runtime.post("/files", files={"file": (path, b"x")}),
        lambda: runtime.post(
            "/files/compose", json={"source_paths": [path], "destination": "/tmp/composed"}
        ),
        lambda: unary(runtime, "filesystem.Filesystem/ListDir", {"path": path}),
        lambda: unary(runtime, "filesystem.Filesystem/MakeDir", {"path": path}),
        lambda: unary(runtime, "filesystem.Filesystem/CreateWatcher", {"path": path}),
    )

    # Each is answered: nobody opens it and waits for its other end.
    for call in calls:
        answer = call()
        assert 400 <= answer.status_code <= 500, (path, answer.status_code, answer.text)


@pytest.mark.parametrize("name", ["fifo", "sock", "loop", "long-loop", "to-fifo"])
def test_what_only_looks_like_a_file_is_described(
    runtime: httpx.Client, odd: str, name: str
) -> None:
    entry = unary(runtime, "filesystem.Filesystem/Stat", {"path": place(odd, name)}).json()["entry"]

    assert entry["type"] == "FILE_TYPE_UNSPECIFIED"
    assert entry.get("isSymlink", False) == (name not in ("fifo", "sock"))


def test_links_lead_to_the_files_of_the_sandbox_alone(runtime: httpx.Client, odd: str) -> None:
    _, inside = run(runtime, "cat /etc/passwd")

    for name in ("outside", "up/passwd", "../../../../../../../../etc/passwd"):
        path = f"{odd}/{name}"
        assert runtime.get(f"/files?path={path}", headers={"Accept-Encoding": ""}).content == inside
    assert b"\nuser:" in inside


def test_a_name_of_an_upload_cannot_leave_the_sandbox(runtime: httpx.Client) -> None:
    name = "../../../../../../../../../tmp/left-by-an-upload"

    answer = runtime.post("/files", files={"file": (name, b"inside")})

    assert answer.json()[0]["path"] == "/tmp/left-by-an-upload"
    assert run(runtime, "cat /tmp/left-by-an-upload; rm /tmp/left-by-an-upload") == (0, b"inside")
    assert not os.path.exists("/tmp/left-by-an-upload")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/filesystem.Filesystem/Stat", "application/json"),
        ("/filesystem.Filesystem/Stat", "application/proto"),
        ("/process.Process/Start", STREAM),
        ("/files/compose", "application/json"),
    ],
)
def test_a_declared_body_of_2_gb_is_refused_before_it_arrives(
    engine: EngineProcess, shared: SandboxAccess, path: str, kind: str
) -> None:
    with connect(engine) as sock:
        sock.sendall(head(shared, path, Content_Type=kind, Content_Length=str(2 << 30)))
        answer = sock.recv(65536)

    # On a stream a refusal is its last message (interface 3.2).
    assert b"resource_exhausted" in answer or answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/filesystem.Filesystem/Stat", "application/json"),
        ("/process.Process/Start", STREAM),
        ("/process.Process/StreamInput", "application/connect+proto"),
        ("/files/compose", "application/json"),
    ],
)
def test_a_chunked_body_without_an_end_costs_no_memory(
    engine: EngineProcess, shared: SandboxAccess, path: str, kind: str
) -> None:
    before = engine.resident_mb()
    block = b'[{"path":"' + b"x" * ((1 << 20) - 10)
    sent = 0

    with connect(engine) as sock:
        sock.sendall(head(shared, path, Content_Type=kind, Transfer_Encoding="chunked"))
        with contextlib.suppress(ConnectionError, TimeoutError):
            for _ in range(2048):
                sock.sendall(b"100000\r\n" + block + b"\r\n")
                sent += 1
        grown = engine.resident_mb() - before

    assert sent < 512, "all of it was taken"
    assert grown < 64 + 2 * ROOM_MB  # a message may have 64 MiB, and is copied once
    with shared.client() as client:
        assert client.get("/health").status_code == 204


def test_the_largest_message_is_taken_without_holding_up_others(
    engine: EngineProcess, shared: SandboxAccess
) -> None:
    """It comes in a thousand pieces: joining each to all before it would take seconds.

    That would cost sixteen times as much as for a quarter of the message, instead of four times.
    """
    busy = Busyness()

    _, least = send_large_message(engine, shared, 15 << 20)
    longest, most = send_large_message(engine, shared, 60 << 20)

    assert longest < 5 * busy.most()
    assert most < 0.5 + 8 * least


def send_large_message(
    engine: EngineProcess, shared: SandboxAccess, size: int
) -> tuple[float, float]:
    """How long others waited at most meanwhile, and the processor time of the engine."""
    body = b'{"path":"/etc","x":"' + b"x" * (size - 22) + b'"}'
    longest, used = 0.0, processor_seconds(engine)

    with connect(engine) as sock, shared.client() as client:
        length = str(len(body))
        kind = "application/json"
        path = "/filesystem.Filesystem/Stat"
        sock.sendall(head(shared, path, Content_Type=kind, Content_Length=length))
        for start in range(0, len(body), 4 << 20):
            sock.sendall(body[start : start + (4 << 20)])
            began = time.monotonic()
            assert client.get("/health").status_code == 204
            longest = max(longest, time.monotonic() - began)
        assert sock.recv(15) == b"HTTP/1.1 200 OK"
    return longest, processor_seconds(engine) - used


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"\0",
        b"\0\0\0\0\x10{",
        envelope({"start": {"process": {"pid": 1}}})[:-1],
        envelope({"keepalive": {}}) * 3,
    ],
)
@pytest.mark.parametrize("method", ["Start", "Connect", "StreamInput"])
def test_a_stream_that_stops_half_way_is_forgotten_with_its_connection(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client, method: str, part: bytes
) -> None:
    runtime.get("/health")
    before = engine.descriptors()
    request = head(
        shared, f"/process.Process/{method}", Content_Type=STREAM, Transfer_Encoding="chunked"
    )
    for _ in range(5):
        with connect(engine) as sock:
            sock.sendall(request + (b"%x\r\n%b\r\n" % (len(part), part) if part else b""))

    until(lambda: engine.descriptors() <= before, message="connections are kept")
    assert runtime.get("/health").status_code == 204


def test_clients_that_never_read_cost_little_and_end_with_their_connections(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    run(runtime, "head -c 200M /dev/zero > /tmp/unread")
    body = envelope(start_request("exec head -c 4G /dev/zero", tag="unread"))
    started = head(
        shared, "/process.Process/Start", Content_Type=STREAM, Content_Length=str(len(body))
    )
    read = head(shared, "/files?path=/tmp/unread", Accept_Encoding="identity")
    runtime.get("/health")
    open_before, before = engine.descriptors(), engine.resident_mb()

    with contextlib.ExitStack() as stack:
        for request in [started + body] * 4 + [read.replace(b"POST", b"GET", 1)] * 4:
            stack.enter_context(connect(engine)).sendall(request)
        processes = "process.Process/List"
        until(
            lambda: len(unary(runtime, processes, {}).json().get("processes", ())) >= 4,
            message="the processes did not start",
        )
        for _ in range(20):
            assert runtime.get("/health").status_code == 204
            assert engine.resident_mb() - before < ROOM_MB
            time.sleep(0.05)

    # The processes run on without anybody, as they must; their output is dropped.
    kill = {"process": {"tag": "unread"}, "signal": 9}
    until(lambda: not unary(runtime, "process.Process/SendSignal", kill).is_success, step=0)
    run(runtime, "rm /tmp/unread")
    until(lambda: engine.descriptors() <= open_before, message="connections are kept")
