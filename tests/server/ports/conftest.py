"""A program behind a port of a sandbox, and clients of it."""

from __future__ import annotations

import httpx
import pytest_asyncio

from sbx_jupyter.client import AsyncSandbox, ConnectionConfig, PlatformClient
from tests.server.ports.programs import PORT, start_program


@pytest_asyncio.fixture
async def inside(sandbox, engine):
    """The client of the sandbox of this test."""
    config = ConnectionConfig.from_connection_file(engine.connection)
    async with PlatformClient(config) as platform:
        yield await AsyncSandbox.connect(sandbox, platform=platform)


@pytest_asyncio.fixture
async def program(inside):
    await start_program(inside)


@pytest_asyncio.fixture
async def browser(jp_http_port, jp_base_url, login_cookie):
    """A client with the login cookie of a browser; paths are below the sandbox's port."""
    async with httpx.AsyncClient(
        base_url=f"http://localhost:{jp_http_port}",
        headers={"Cookie": login_cookie, "Accept": "text/html"},
        timeout=60,
    ) as client:
        yield client


@pytest_asyncio.fixture
async def page(jp_http_port, jp_base_url, sandbox, browser):
    """A client of the page's own: no cookie, an opaque origin, and the address with the grant."""
    entry = await browser.get(f"{jp_base_url}sbx/port/{sandbox}/{PORT}/")
    assert entry.status_code == 302, entry.text
    async with httpx.AsyncClient(
        base_url=f"http://localhost:{jp_http_port}{entry.headers['Location']}",
        headers={"Origin": "null"},
        timeout=60,
    ) as client:
        yield client
