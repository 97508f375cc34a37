"""Files over plain HTTP: interface 4."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import socket
import time
import zlib
from pathlib import Path

import httpx
import pytest

from sbx_jupyter.protocol.access import sign
from tests.checks import check_file_error
from tests.engine_process import EngineProcess
from tests.service.conftest import SandboxAccess
from tests.service.rpc import run, unary
from tests.waiting import PATIENCE, until

OCTETS = {"Content-Type": "application/octet-stream"}
IDENTITY = {"Accept-Encoding": "identity"}


def write(client: httpx.Client, path: str, content: bytes, **headers: str) -> httpx.Response:
    return client.post(
        "/files", params={"path": path}, content=content, headers={**OCTETS, **headers}
    )


def read(client: httpx.Client, path: str, **headers: str) -> httpx.Response:
    return client.get("/files", params={"path": path}, headers={**IDENTITY, **headers})


def test_a_file_is_written_and_read_back(runtime: httpx.Client) -> None:
    written = write(runtime, "round/trip.txt", b"hello\0world")

    assert written.status_code == 200
    assert written.json() == [
        {"path": "/home/user/round/trip.txt", "name": "trip.txt", "type": "file"}
    ]
    answer = read(runtime, "round/trip.txt")
    assert answer.content == b"hello\0world"
    assert answer.headers["content-length"] == "11"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.headers["content-disposition"] == "inline; filename=trip.txt"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "last-modified" in answer.headers


def test_gzip_is_chosen_when_it_is_accepted(runtime: httpx.Client) -> None:
    write(runtime, "big.json", b'{"a":1}' * 100_000)

    answer = runtime.get("/files?path=big.json", headers={"Accept-Encoding": "gzip, deflate"})

    assert answer.headers["content-encoding"] == "gzip"
    assert "content-length" not in answer.headers
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == b'{"a":1}' * 100_000


def test_what_does_not_get_smaller_is_still_valid_gzip(runtime: httpx.Client) -> None:
    content = os.urandom(3 << 20)
    write(runtime, "noise.bin", content)

    answer = runtime.get("/files?path=noise.bin", headers={"Accept-Encoding": "gzip"})

    assert answer.content == content


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", None),
        ("gzip", "gzip"),
        ("br, zstd", None),
        ("*", None),
        ("gzip;q=0", None),
        ("gzip;q=0.5, identity", None),
        ("identity;q=0, gzip;q=0.1", "gzip"),
        ("br;q=1, gzip;q=0.2", "gzip"),
    ],
)
def test_the_coding_follows_the_weights(
    runtime: httpx.Client, accepted: str, coding: str | None
) -> None:
    write(runtime, "coded", b"text" * 100)

    answer = runtime.get("/files?path=coded", headers={"Accept-Encoding": accepted})

    assert answer.headers.get("content-encoding") == coding
    assert answer.content == b"text" * 100


def test_nothing_acceptable_is_406(runtime: httpx.Client) -> None:
    write(runtime, "coded", b"text")

    for accepted in ("identity;q=0", "*;q=0", "br, identity;q=0"):
        check_file_error(
            runtime.get("/files?path=coded", headers={"Accept-Encoding": accepted}), 406
        )
    check_file_error(
        runtime.get(
            "/files?path=coded",
            headers={"Accept-Encoding": "gzip, identity;q=0", "Range": "bytes=0-1"},
        ),
        406,
    )


def test_an_empty_file_has_a_length(runtime: httpx.Client) -> None:
    write(runtime, "empty", b"")

    answer = runtime.get("/files?path=empty", headers={"Accept-Encoding": "gzip, deflate"})

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == "0"


@pytest.mark.parametrize(
    ("wanted", "content", "part"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-99", b"0123456789", "bytes 0-9/10"),
        ("bytes=8-99", b"89", "bytes 8-9/10"),
        ("bytes=50-60,1-2", b"12", "bytes 1-2/10"),
    ],
)
def test_a_range_is_206(runtime: httpx.Client, wanted: str, content: bytes, part: str) -> None:
    write(runtime, "digits", b"0123456789")

    answer = runtime.get(
        "/files?path=digits", headers={"Range": wanted, "Accept-Encoding": "gzip, deflate"}
    )

    assert (answer.status_code, answer.content) == (206, content)
    assert answer.headers["content-range"] == part
    assert "content-encoding" not in answer.headers


def test_several_ranges_are_a_multipart_answer(runtime: httpx.Client) -> None:
    write(runtime, "digits", b"0123456789")

    answer = read(runtime, "digits", Range="bytes=0-1,5-6")

    assert answer.status_code == 206
    kind, _, boundary = answer.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/byteranges"
    parts = answer.content.split(f"--{boundary}".encode())
    assert [part.partition(b"\r\n\r\n")[2] for part in parts[1:3]] == [b"01\r\n", b"56\r\n"]
    assert len(answer.content) == int(answer.headers["content-length"])


@pytest.mark.parametrize("wanted", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_a_range_outside_is_416(runtime: httpx.Client, wanted: str) -> None:
    write(runtime, "digits", b"0123456789")

    answer = read(runtime, "digits", Range=wanted)

    check_file_error(answer, 416)
    assert answer.headers["content-range"] == "bytes */10"


@pytest.mark.parametrize("wanted", ["lines=1-2", "bytes=x", "bytes=5-2", "bytes=", "bytes=-"])
def test_a_malformed_range_is_no_partial_answer(runtime: httpx.Client, wanted: str) -> None:
    write(runtime, "digits", b"0123456789")

    assert read(runtime, "digits", Range=wanted).status_code in (200, 416)


def test_conditions_are_honoured(runtime: httpx.Client) -> None:
    write(runtime, "digits", b"0123456789")
    first = read(runtime, "digits")
    tag, date = first.headers["etag"], first.headers["last-modified"]
    old = "Mon, 01 Jan 2001 00:00:00 GMT"

    assert read(runtime, "digits", **{"If-None-Match": tag}).status_code == 304
    assert read(runtime, "digits", **{"If-None-Match": "*"}).status_code == 304
    assert read(runtime, "digits", **{"If-None-Match": '"x"'}).status_code == 200
    assert read(runtime, "digits", **{"If-Modified-Since": date}).status_code == 304
    assert read(runtime, "digits", **{"If-Modified-Since": old}).status_code == 200
    assert read(runtime, "digits", **{"If-Modified-Since": "nonsense"}).status_code == 200
    part = {"Range": "bytes=0-1"}
    assert read(runtime, "digits", **part, **{"If-Range": tag}).status_code == 206
    assert read(runtime, "digits", **part, **{"If-Range": date}).status_code == 206
    assert read(runtime, "digits", **part, **{"If-Range": '"x"'}).status_code == 200
    assert read(runtime, "digits", **part, **{"If-Range": old}).status_code == 200


def test_head_describes_without_a_body(runtime: httpx.Client) -> None:
    write(runtime, "digits", b"0123456789")

    answer = runtime.head("/files?path=digits", headers=IDENTITY)

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == "10"
    assert runtime.get("/health").status_code == 204


def test_errors_of_reading(runtime: httpx.Client) -> None:
    check_file_error(read(runtime, "/none"), 404, "path '/none' does not exist")
    check_file_error(read(runtime, "/etc"), 400, "path '/etc' is a directory")
    check_file_error(runtime.get("/files"), 400, "is a directory")
    check_file_error(read(runtime, "~other/x"), 400)
    check_file_error(runtime.get("/files?path=x&username=nobody-here"), 401, "nobody-here")


def test_special_files_are_refused_and_block_nothing(runtime: httpx.Client) -> None:
    run(
        runtime,
        "cd /tmp && rm -rf odd && mkdir odd && cd odd && mkfifo fifo && ln -s loop loop && "
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\" && "
        "ln -s /none broken && ln -s fifo to-fifo",
    )

    for path in ("fifo", "to-fifo", "sock", "loop", "broken", "/dev/null", "/dev/zero", "/dev/tty"):
        full = path if path.startswith("/") else f"/tmp/odd/{path}"
        began = time.monotonic()
        answer = read(runtime, full)
        assert 400 <= answer.status_code <= 500, (path, answer.status_code)
        check_file_error(answer, answer.status_code)
        if path != "broken":
            check_file_error(again := write(runtime, full, b"x"), again.status_code)
        assert time.monotonic() - began < 10  # none of them is waited for
    assert runtime.get("/health").status_code == 204


def test_hostile_names_are_errors_and_nothing_more(runtime: httpx.Client) -> None:
    for path in ("a\0b", "/" + "x" * 5000, "/" + "a/" * 3000, "/dev/null/x"):
        for answer in (read(runtime, path), write(runtime, path, b"x")):
            assert 400 <= answer.status_code < 600
            check_file_error(answer, answer.status_code)
    check_file_error(runtime.get("/files?path=%ff"), 400)
    assert runtime.get("/health").status_code == 204


def test_dots_stay_inside_the_sandbox(runtime: httpx.Client) -> None:
    written = write(runtime, "../../../../../../../tmp/../tmp/dots", b"in")

    assert written.json()[0]["path"] == "/tmp/dots"
    assert run(runtime, "cat /tmp/dots") == (0, b"in")
    assert not os.path.exists("/tmp/dots")


def test_files_of_proc_are_read_to_their_end(runtime: httpx.Client) -> None:
    for headers in (IDENTITY, {"Accept-Encoding": "gzip"}):
        answer = runtime.get("/files?path=/proc/meminfo", headers=headers)
        assert answer.status_code == 200
        assert b"MemTotal:" in answer.content


def test_names_are_quoted_in_the_disposition(runtime: httpx.Client) -> None:
    for name, expected in (
        ("a b.txt", 'inline; filename="a b.txt"'),
        ('q"uote', 'inline; filename="q\\"uote"'),
        ("grün.txt", "inline; filename*=utf-8''gr%C3%BCn.txt"),
        ("line\nbreak", "inline; filename*=utf-8''line%0Abreak"),
    ):
        assert write(runtime, name, b"x").status_code == 200
        assert read(runtime, name).headers["content-disposition"] == expected


# Writing.


def test_a_multipart_upload_may_have_several_files_with_folders(runtime: httpx.Client) -> None:
    files = [
        ("file", ("m/one.txt", b"1")),
        ("other", ("skipped", b"no")),
        ("file", ("m/deep/two.txt", b"22")),
        ("file", ("m/empty", b"")),
    ]

    answer = runtime.post("/files", files=files)

    assert [each["path"] for each in answer.json()] == [
        "/home/user/m/one.txt",
        "/home/user/m/deep/two.txt",
        "/home/user/m/empty",
    ]
    assert read(runtime, "m/deep/two.txt").content == b"22"
    assert read(runtime, "skipped").status_code == 404


def test_the_query_path_wins_over_the_file_name(runtime: httpx.Client) -> None:
    answer = runtime.post("/files?path=chosen", files={"file": ("given", b"x")})

    assert answer.json()[0]["path"] == "/home/user/chosen"


def test_the_same_target_twice_is_400_and_the_first_stays(runtime: httpx.Client) -> None:
    for names in (
        ("twice", "twice"),
        ("twice", "./twice"),
        ("twice", "/home/user/twice"),
        ("/home/user/twice", "x/../twice"),
    ):
        files = [("file", (names[0], b"first")), ("file", (names[1], b"second"))]
        check_file_error(runtime.post("/files", files=files), 400)
        assert read(runtime, "twice").content == b"first"


def test_wrong_uploads_are_400(runtime: httpx.Client) -> None:
    run(runtime, "mkdir -p /home/user/folder")
    raw = runtime.post("/files", content=b"x", headers=OCTETS)
    check_file_error(raw, 400, "path query parameter is required for raw body upload")
    for kind in ("", "text/plain", "application/json"):
        answer = runtime.post("/files?path=x", content=b"x", headers={"Content-Type": kind})
        check_file_error(answer, 400, "unsupported content type")
    check_file_error(write(runtime, "folder", b"x"), 400, "path is a directory")
    check_file_error(write(runtime, "x", b"x", **{"Content-Encoding": "br"}), 400)
    check_file_error(write(runtime, "x", b"no gzip", **{"Content-Encoding": "gzip"}), 400)
    cut = gzip.compress(b"x" * 1000)[:-5]
    check_file_error(write(runtime, "x", cut, **{"Content-Encoding": "gzip"}), 400)
    nameless = runtime.post("/files", files={"file": ("", b"x")})
    assert nameless.status_code in (200, 400)
    unknown = runtime.post("/files?path=x&username=nobody-here", content=b"", headers=OCTETS)
    check_file_error(unknown, 401)


def test_a_broken_multipart_body_is_an_error(runtime: httpx.Client) -> None:
    for body in (
        b"",
        b"nonsense",
        b"--B\r\n",
        b'--B\r\nContent-Disposition: form-data; name="file"',
    ):
        answer = runtime.post(
            "/files", content=body, headers={"Content-Type": "multipart/form-data; boundary=B"}
        )
        check_file_error(answer, 500)
    answer = runtime.post("/files", content=b"", headers={"Content-Type": "multipart/form-data"})
    check_file_error(answer, 400)


def test_gzip_bodies_are_unpacked(runtime: httpx.Client) -> None:
    packed = gzip.compress(b"one") + gzip.compress(b"two")

    assert write(runtime, "unpacked", packed, **{"Content-Encoding": "gzip"}).status_code == 200
    assert read(runtime, "unpacked").content == b"onetwo"


def test_a_gzip_bomb_costs_disk_but_no_memory(engine: EngineProcess, runtime: httpx.Client) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    bomb = b"".join([*(packer.compress(block) for _ in range(400)), packer.flush()])
    before = engine.resident_mb()

    answer = write(runtime, "/tmp/bomb", bomb, **{"Content-Encoding": "gzip"})

    assert answer.status_code == 200
    assert engine.resident_mb() - before < 64
    assert run(runtime, "stat -c %s /tmp/bomb; rm /tmp/bomb") == (0, b"419430400\n")


def test_metadata_is_replaced_by_each_upload(runtime: httpx.Client) -> None:
    first = write(runtime, "tagged", b"1", **{"X-Metadata-Author": "me", "x-metadata-b": "2"})
    second = write(runtime, "tagged", b"2", **{"X-Metadata-C": "3"})
    third = write(runtime, "tagged", b"3")

    assert first.json()[0]["metadata"] == {"author": "me", "b": "2"}
    assert second.json()[0]["metadata"] == {"c": "3"}
    assert "metadata" not in third.json()[0]
    entry = unary(runtime, "filesystem.Filesystem/Stat", {"path": "tagged"}).json()["entry"]
    assert "metadata" not in entry


@pytest.mark.parametrize(
    ("name", "value"),
    [("X-Metadata-", "x"), ("X-Metadata-" + "k" * 247, "x"), ("X-Metadata-A", "v" * 4096)],
)
def test_wrong_metadata_is_400(runtime: httpx.Client, name: str, value: str) -> None:
    check_file_error(write(runtime, "tagged", b"", **{name: value}), 400, "invalid metadata")


def test_compose_joins_and_removes(runtime: httpx.Client) -> None:
    write(runtime, "part1", b"one ")
    write(runtime, "part2", b"two")
    request = {"source_paths": ["part1", "part2"], "destination": "joined/all"}

    answer = runtime.post("/files/compose", json=request)

    assert answer.json() == {"path": "/home/user/joined/all", "name": "all", "type": "file"}
    assert read(runtime, "joined/all").content == b"one two"
    check_file_error(read(runtime, "part1"), 404)
    check_file_error(
        runtime.post("/files/compose", json=request), 404, "source file not found: part1"
    )


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{}",
        b'{"source_paths":[],"destination":"x"}',
        b'{"source_paths":["tagged"],"destination":""}',
        b'{"source_paths":["tagged"],"destination":"tagged"}',
        b'{"source_paths":["/etc"],"destination":"x"}',
    ],
)
def test_wrong_compose_requests_are_400(runtime: httpx.Client, body: bytes) -> None:
    write(runtime, "tagged", b"x")

    check_file_error(runtime.post("/files/compose", content=body), 400)


# Who may.


def test_signed_urls_work_with_and_without_routing(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    write(runtime, "signed", b"content")
    routing = {"E2b-Sandbox-Id": shared.id, "E2b-Sandbox-Port": "49983"}
    later = int(time.time()) + 60
    with httpx.Client(base_url=engine.url, trust_env=False, timeout=PATIENCE) as client:
        for headers in (routing, {}, {"Host": f"49983-{shared.id}.example.com"}):
            for expiration in (None, later):
                params = {
                    "path": "signed",
                    "signature": sign("signed", "read", "", shared.token, expiration),
                }
                if expiration is not None:
                    params["signature_expiration"] = str(expiration)
                assert client.get("/files", params=params, headers=headers).text == "content"
            upload = {"signature": sign("", "write", "", shared.token, None)}
            answer = client.post(
                "/files", params=upload, files={"file": ("up", b"x")}, headers=headers
            )
            assert answer.json()[0]["path"] == "/home/user/up"


def test_wrong_credentials_for_files_are_401(engine: EngineProcess, shared: SandboxAccess) -> None:
    routing = {"E2b-Sandbox-Id": shared.id, "E2b-Sandbox-Port": "49983"}
    good = sign("signed", "read", "", shared.token, None)
    old = sign("signed", "read", "", shared.token, 5)
    with httpx.Client(
        base_url=engine.url, trust_env=False, headers=routing, timeout=PATIENCE
    ) as client:
        check_file_error(client.get("/files?path=signed"), 401, "missing signature query parameter")
        for signature in (
            "v1_x",
            good + "x",
            "%ff",
            sign("signed", "write", "", shared.token, None),
        ):
            answer = client.get("/files", params={"path": "signed", "signature": signature})
            check_file_error(answer, 401, "invalid signature")
        expired = {"path": "signed", "signature": old, "signature_expiration": "5"}
        check_file_error(client.get("/files", params=expired), 401, "signature is already expired")
        both = client.get(
            "/files",
            params={"path": "signed", "signature": good},
            headers={"X-Access-Token": "wrong"},
        )
        check_file_error(both, 401, "access token present in header but does not match")
    bare = httpx.get(
        f"{engine.url}/files?path=signed&signature=v1_x", trust_env=False, timeout=PATIENCE
    )
    assert (bare.status_code, bare.text) == (400, "Invalid host")


def test_metrics_envs_and_health(runtime: httpx.Client) -> None:
    health = runtime.get("/health", headers={"X-Access-Token": ""})
    assert (health.status_code, health.headers["cache-control"]) == (204, "no-store")
    reading = runtime.get("/metrics")
    assert reading.headers["cache-control"] == "no-store"
    assert set(reading.json()) == {
        "ts", "cpu_count", "cpu_ns", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "mem_total",
        "mem_used", "mem_cache", "disk_used", "disk_total",
    }  # fmt: skip
    assert runtime.get("/envs").json()["E2B_SANDBOX"] == "true"
    for path in ("/metrics", "/envs", "/files/compose", "/anything"):
        check_file_error(runtime.get(path, headers={"X-Access-Token": "x"}), 401)
    check_file_error(runtime.get("/anything"), 404)
    check_file_error(runtime.delete("/files"), 405)


def test_preflight_needs_no_token(engine: EngineProcess, shared: SandboxAccess) -> None:
    routing = {"E2b-Sandbox-Id": shared.id, "E2b-Sandbox-Port": "49983"}

    answer = httpx.options(
        f"{engine.url}/files", headers=routing, trust_env=False, timeout=PATIENCE
    )

    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-max-age"] == "7200"


# Size.


def test_300_mb_pass_both_ways_in_constant_memory(
    engine: EngineProcess, runtime: httpx.Client
) -> None:
    block = os.urandom(1 << 20)
    expected = hashlib.sha256()

    def blocks():
        for _ in range(300):
            expected.update(block)
            yield block

    before = engine.resident_mb()
    answer = runtime.post("/files?path=/tmp/large", content=blocks(), headers=OCTETS)
    assert answer.status_code == 200
    found = hashlib.sha256()
    with runtime.stream("GET", "/files?path=/tmp/large", headers=IDENTITY) as download:
        for chunk in download.iter_raw():
            found.update(chunk)

    assert found.digest() == expected.digest()
    assert engine.resident_mb() - before < 64
    run(runtime, "rm /tmp/large")


def has_open(engine: EngineProcess, name: str) -> bool:
    folder = Path(f"/proc/{engine.pid}/fd")
    for descriptor in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(descriptor).endswith(name):
                return True
    return False


def test_an_upload_that_stops_half_way_leaves_no_open_file(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    with socket.create_connection(("127.0.0.1", engine.port), timeout=30) as sock:
        sock.sendall(head_of_upload(shared, "/tmp/half", 2 << 20) + b"x" * 1000)
        until(lambda: has_open(engine, "/half"))

    until(lambda: not has_open(engine, "/half"))
    assert runtime.get("/health").status_code == 204


def head_of_upload(access: SandboxAccess, path: str, size: int) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in access.headers().items())
    return (
        f"POST /files?path={path} HTTP/1.1\r\nHost: localhost\r\n{lines}"
        f"Content-Type: application/octet-stream\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


def test_a_hundred_uploads_that_stop_cost_little_memory(
    engine: EngineProcess, shared: SandboxAccess, runtime: httpx.Client
) -> None:
    before = engine.resident_mb()
    with contextlib.ExitStack() as opened:
        for number in range(100):
            sock = socket.create_connection(("127.0.0.1", engine.port), timeout=30)
            opened.enter_context(sock)
            sock.sendall(head_of_upload(shared, f"/tmp/stalled-{number}", 10_000_000) + b"x")
        until(lambda: has_open(engine, "/stalled-99"))

        assert engine.resident_mb() - before < 100
        assert runtime.get("/health").status_code == 204
    until(lambda: not has_open(engine, "/stalled-99"))


def test_a_full_disk_is_507(api: httpx.Client, runtime: httpx.Client) -> None:
    code, _ = run(runtime, "test -w /dev/shm")
    if code:
        pytest.skip("the sandbox has no /dev/shm of limited size to fill")
    size = int(run(runtime, "df -B1 --output=size /dev/shm | tail -1")[1])
    if size > 1 << 30:
        pytest.skip("/dev/shm of the sandbox is too large to fill in a test")

    def blocks():
        for _ in range(size // (1 << 20) + 8):
            yield bytes(1 << 20)

    answer = runtime.post("/files?path=/dev/shm/full", content=blocks(), headers=OCTETS)
    run(runtime, "rm -f /dev/shm/full")

    check_file_error(answer, 507)
