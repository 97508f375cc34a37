"""Copies between notebook files and sandboxes through the route."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from sbx_jupyter.server.copies.notebook_files import NotebookPlace
from tests.waiting import async_until

LARGE = b"0123456789" * 200_000


def events_of(raw):
    found = []
    for block in raw.decode().strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((lines["event"], json.loads(lines["data"])))
    return found


@pytest.fixture
def copy(api):
    async def make(jobs, **options):
        listed = [{"source": source, "target": target} for source, target in jobs]
        status, raw = await api("POST", "copies", body={"jobs": listed, **options})
        if status != 200:
            return status, raw
        name, end = events_of(raw)[-1]
        assert name == "end"
        return status, end

    return make


@pytest.fixture
def files(api, sandbox):
    async def call(path):
        return await api("GET", "sandboxes", sandbox, "files", params={"path": path})

    return call


@pytest.mark.long
async def test_folders_go_there_and_back(sandbox, api, copy, files, jp_root_dir):
    jp_root_dir.joinpath("data/sub").mkdir(parents=True)
    jp_root_dir.joinpath("data/large.bin").write_bytes(LARGE)
    jp_root_dir.joinpath("data/sub/é.txt").write_text("inner")

    status, end = await copy([("data", "/home/user/in")], targetSandboxID=sandbox)
    assert (status, end["copied"], end["failures"]) == (200, 2, [])
    assert (await files("/home/user/in/large.bin"))[1] == LARGE
    # Inside the same sandbox, then back under a name that is taken.
    ids = {"sourceSandboxID": sandbox, "targetSandboxID": sandbox}
    _, end = await copy([("/home/user/in", "/home/user/again")], **ids)
    assert end["copied"] == 2
    out = [("/home/user/again", "data")]
    _, end = await copy(out, sourceSandboxID=sandbox)
    assert "already" in end["failures"][0]["message"]
    _, end = await copy(out, sourceSandboxID=sandbox, existing="keep")
    assert end["copied"] == 2
    assert jp_root_dir.joinpath("data-Copy1/large.bin").read_bytes() == LARGE
    assert jp_root_dir.joinpath("data-Copy1/sub/é.txt").read_text() == "inner"
    names = sorted(each.name for each in jp_root_dir.joinpath("data-Copy1").iterdir())
    assert names == ["large.bin", "sub"]

    for jobs, options, expected in (
        ([("none", "/x")], {"targetSandboxID": sandbox}, 404),
        ([("data", "/x")], {"targetSandboxID": "i" + "0" * 19}, 404),
        ([("data", "/x")], {"targetSandboxID": sandbox, "existing": "x"}, 400),
        ([], {"targetSandboxID": sandbox}, 400),
    ):
        assert (await copy(jobs, **options))[0] == expected


async def test_a_page_that_goes_cancels_and_leaves_nothing_half(
    sandbox, api, jp_root_dir, jp_http_port, jp_auth_header, jp_base_url, monkeypatch
):
    ended = asyncio.Event()

    @contextlib.asynccontextmanager
    async def read_without_end(self, found):
        async def chunks():
            yield b"x" * 100_000
            await asyncio.Event().wait()

        try:
            yield chunks()
        finally:
            ended.set()

    monkeypatch.setattr(NotebookPlace, "read", read_without_end)
    jp_root_dir.joinpath("huge").write_bytes(b"x" * 200_000)
    body = json.dumps(
        {"jobs": [{"source": "huge", "target": "/home/user/huge"}], "targetSandboxID": sandbox}
    )
    head = f"POST {jp_base_url}sbx/api/copies HTTP/1.1\r\nHost: localhost:{jp_http_port}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in jp_auth_header.items())
    reader, writer = await asyncio.open_connection("localhost", jp_http_port)
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    await reader.readuntil(b'"bytes":100000,')
    writer.close()
    await ended.wait()

    async def is_clean():
        path = {"path": "/home/user", "filter": "huge"}
        _, page = await api("GET", "sandboxes", sandbox, "listing", params=path)
        return page["matching"] == 0

    await async_until(is_clean)
