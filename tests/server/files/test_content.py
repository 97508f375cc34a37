"""Files through the server: streamed, opaque to the browser, cut off honestly."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource

import pytest
from tornado.simple_httpclient import HTTPStreamClosedError

from tests.waiting import async_until

pytestmark = pytest.mark.usefixtures("with_engine")

SIZE = 96 * 1024 * 1024
ROOM = 40 * 1024
"""How much the process may grow in a transfer of ``SIZE``, in KiB."""


@pytest.fixture
def files(jp_fetch, sandbox):
    """``await files("GET", "/path")``: the whole response, whatever its status."""

    async def call(method, path, *, headers=None, **options):
        return await jp_fetch(
            "sbx",
            "api",
            "sandboxes",
            sandbox,
            "files",
            method=method,
            params={"path": path},
            headers=dict(headers or {}),
            raise_error=False,
            **options,
        )

    return call


@pytest.mark.parametrize(
    "path",
    ["/home/user/a.bin", "b.bin", "/home/user/with space & more?#%.bin", "/home/user/é—漢.bin"],
)
async def test_bytes_come_back_as_they_went(files, path):
    content = os.urandom(100_000)

    written = await files("POST", path, body=content)
    read = await files("GET", path)

    assert written.code == 200
    [entry] = json.loads(written.body)
    assert entry["path"].endswith(path.rpartition("/")[2])
    assert read.code == 200
    assert read.body == content
    assert read.headers["Content-Length"] == str(len(content))


async def test_an_empty_file_is_a_file(files):
    await files("POST", "empty", body=b"")

    read = await files("GET", "empty")

    assert (read.code, read.body) == (200, b"")


async def test_a_page_from_a_sandbox_is_never_shown_in_jupyters_origin(files):
    await files("POST", "page.html", body=b"<script>alert(1)</script>")

    read = await files("GET", "page.html")

    assert read.headers["Content-Type"] == "application/octet-stream"
    assert read.headers["Content-Disposition"].startswith("attachment")
    assert read.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in read.headers["Content-Security-Policy"]


async def test_a_name_cannot_break_out_of_its_header(files):
    path = '/home/user/a"; filename="b\r\nX-Evil: 1.txt'
    await files("POST", path, body=b"x")

    read = await files("GET", path)

    assert read.code == 200
    assert "X-Evil" not in read.headers


async def test_a_part_of_a_file_can_be_asked_for(files):
    await files("POST", "digits", body=b"0123456789")

    part = await files("GET", "digits", headers={"Range": "bytes=2-4"})
    beyond = await files("GET", "digits", headers={"Range": "bytes=20-"})

    assert (part.code, part.body) == (206, b"234")
    assert part.headers["Content-Range"] == "bytes 2-4/10"
    assert beyond.code == 416


async def test_a_file_that_did_not_change_is_not_sent_again(files):
    await files("POST", "kept", body=b"0123456789")
    first = await files("GET", "kept")

    again = await files(
        "GET", "kept", headers={"If-Modified-Since": first.headers["Last-Modified"]}
    )

    assert (again.code, again.body) == (304, b"")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/no/such", 404, "not_found"),
        ("GET", "/home", 400, "invalid_argument"),
        ("POST", "/home", 400, "invalid_argument"),
        ("GET", "", 400, "invalid_argument"),
        ("POST", "", 400, "invalid_argument"),
    ],
)
async def test_what_cannot_be_done_is_told(files, method, path, status, code):
    answer = await files(method, path, body=b"x" if method == "POST" else None)

    assert answer.code == status
    assert json.loads(answer.body)["code"] == code


async def test_large_files_stream_both_ways_in_constant_memory(files):
    block = os.urandom(1024 * 1024)
    sent, received = hashlib.sha256(), hashlib.sha256()

    async def produce(write):
        for _ in range(SIZE // len(block)):
            sent.update(block)
            await write(block)

    await files("POST", "warm", body=block)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    written = await files(
        "POST",
        "large",
        body_producer=produce,
        headers={"Content-Length": str(SIZE)},
        request_timeout=50,
    )
    await files("GET", "large", streaming_callback=received.update, request_timeout=50)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert written.code == 200
    assert received.digest() == sent.digest()
    assert grown < ROOM


async def test_an_upload_that_breaks_off_leaves_no_transfer_behind(
    files, sandbox, jp_http_port, jp_base_url, jp_auth_header
):
    idle = len(asyncio.all_tasks())
    _reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    head = (
        f"POST {jp_base_url}sbx/api/sandboxes/{sandbox}/files?path=half HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{jp_http_port}\r\n"
        f"Authorization: {jp_auth_header['Authorization']}\r\n"
        "Content-Length: 1000000\r\n\r\n"
    )
    writer.write(head.encode() + b"x" * 1000)
    await writer.drain()
    await async_until(lambda: len(asyncio.all_tasks()) > idle)
    writer.close()
    await writer.wait_closed()

    await async_until(lambda: len(asyncio.all_tasks()) <= idle)


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
async def test_a_small_upload_to_an_unknown_sandbox_is_told(jp_fetch, size):
    answer = await jp_fetch(
        *("sbx", "api", "sandboxes", "i00000000000000000000", "files"),
        method="POST",
        params={"path": "/tmp/x"},
        body=b"x" * size,
        raise_error=False,
    )

    assert answer.code == 404
    assert json.loads(answer.body)["code"] == "not_found"


async def test_a_large_upload_to_an_unknown_sandbox_is_not_read_to_its_end(jp_fetch):
    sent = 0

    async def produce(write):
        nonlocal sent
        for _ in range(64):
            await write(b"x" * 1024 * 1024)
            sent += 1

    with pytest.raises(HTTPStreamClosedError):
        await jp_fetch(
            *("sbx", "api", "sandboxes", "i00000000000000000000", "files"),
            method="POST",
            params={"path": "/tmp/x"},
            body_producer=produce,
            headers={"Content-Length": str(64 * 1024 * 1024)},
        )

    assert sent < 64
