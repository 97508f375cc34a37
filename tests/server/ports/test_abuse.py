"""Programs, clients and addresses that mean harm to the proxy of ports and the routes."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import pytest_asyncio

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig, PlatformClient
from sbx_jupyter.server.ports import upstream, websocket
from tests.engine_process import engine_process
from tests.server.ports.programs import PORT, start_program
from tests.waiting import async_until

pytestmark = pytest.mark.long


async def raw_status(port, path, headers):
    """The status for a path that is sent as it is written."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n{lines}\r\n".encode())
    first = await reader.readline()
    writer.close()
    return int(first.split()[1])


TRICKS = (
    "sbx/api/../api/sandboxes/{id}/../../../contents",
    "sbx/api/sandboxes/..%2f..%2f..%2fapi%2fcontents",
    "sbx/api/sandboxes/%2e%2e/info",
    "sbx/api/sandboxes/{id}%2f..%2f..%2fsecrets",
    "sbx/api/sandboxes/{id}%00",
    "sbx/api//sandboxes",
    "sbx/api/sandboxes/{id}/rpc/filesystem.Filesystem/../process.Process/Start",
    "sbx/port/{id}/8000%2f..%2f49983/",
    "sbx/port/{id}/49983/",
    "sbx/port/{id}/049983/",
    "sbx/port/{id}%2f..%2f/8000/",
    "sbx/port/../api/contents",
    "sbx/port/{id}/-8000/",
)


@pytest.mark.parametrize("jp_base_url", ["/user/a%40b/"])
async def test_tricks_with_paths_lead_nowhere(
    sandbox, jp_http_port, jp_base_url, jp_auth_header, jp_serverapp
):
    statuses = {
        trick: await raw_status(
            jp_http_port, jp_base_url + trick.format(id=sandbox), jp_auth_header
        )
        for trick in TRICKS
    }

    assert {trick for trick, status in statuses.items() if not 400 <= status < 500} == set()


async def test_a_header_of_100_mb_is_refused(program, page, monkeypatch):
    monkeypatch.setattr(upstream, "START_PATIENCE", 0.5)

    assert (await page.get("header?100000000")).status_code == 502


async def test_a_client_that_leaves_ends_an_endless_answer(program, page):
    async with page.stream("GET", f"big?{10**15}") as answer:
        pieces = answer.aiter_raw()
        await anext(pieces)
        assert (await page.get("sending")).text == "1"

    async def is_over():
        return (await page.get("sending")).text == "0"

    await async_until(is_over)


def silent_count_is(page, number):
    """A condition: so many connections wait in the program that never answers."""

    async def is_so():
        return (await page.get("silent")).text == str(number)

    return is_so


@pytest_asyncio.fixture
async def unanswered(program, page, jp_http_port):
    """A handshake that the program has read and does not answer."""
    reader, writer = await asyncio.open_connection("localhost", jp_http_port)
    writer.write(
        f"GET {page.base_url.raw_path.decode()}never HTTP/1.1\r\nHost: localhost:{jp_http_port}\r\n"
        "Origin: null\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    try:
        await async_until(silent_count_is(page, 1))
        yield reader, writer
    finally:
        writer.close()


async def test_a_client_that_leaves_ends_a_handshake_without_an_answer(unanswered, page, caplog):
    unanswered[1].close()

    await async_until(silent_count_is(page, 0), timeout=websocket.HANDSHAKE_SECONDS / 2)
    assert "Uncaught exception" not in caplog.text


@pytest.fixture
def short_handshakes(monkeypatch):
    monkeypatch.setattr(websocket, "HANDSHAKE_SECONDS", 2.0)


async def test_a_handshake_without_an_answer_ends_in_time(short_handshakes, unanswered, page):
    reader, _ = unanswered

    assert (await reader.readline()).split()[1] == b"504"
    await async_until(silent_count_is(page, 0))


@pytest.fixture
def own_engine(extension_settings):
    with engine_process("ports-killed") as running:
        extension_settings["data_dir"] = str(running.data_dir)
        yield running


async def test_an_answer_whose_engine_is_killed_never_looks_whole(
    own_engine, api, jp_http_port, jp_base_url, jp_auth_header
):
    _, made = await api("POST", "sandboxes", body={})
    config = ConnectionConfig.from_connection_file(own_engine.connection)
    async with PlatformClient(config) as platform:
        await start_program(await AsyncSandbox.connect(made["sandboxID"], platform=platform))
    url = f"http://127.0.0.1:{jp_http_port}{jp_base_url}sbx/port/{made['sandboxID']}/{PORT}/"
    async with (
        httpx.AsyncClient(headers=jp_auth_header, timeout=60) as client,
        client.stream("GET", f"{url}big?{10**12}") as answer,
    ):
        pieces = answer.aiter_raw()
        await anext(pieces)
        own_engine.kill()

        with pytest.raises(httpx.RemoteProtocolError):
            async for _ in pieces:
                pass
    own_engine.start()  # ends what the killed one left
