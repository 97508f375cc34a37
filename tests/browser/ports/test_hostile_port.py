"""A page from a port of a sandbox attacks Jupyter in every way that a browser has, in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from sbx_jupyter.client import Sandbox
from tests.browser.chromium import PATIENCE_MS, chromium
from tests.browser.ports.hostile_page import PROGRAM, hostile_page
from tests.browser.server import BASE_URL, TOKEN
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Playwright

    from tests.browser.server import JupyterServer

pytestmark = pytest.mark.long

PORT = 8000

ATTEMPTS = {
    "fetch": "await (await fetch(base + 'api/contents', {credentials: 'include'})).text()",
    "cookies": "document.cookie",
    "setting cookies": "document.cookie = 'a=b'",
    "local storage": "localStorage.getItem('x')",
    "session storage": "sessionStorage.getItem('x')",
    "databases": "indexedDB.open('x')",
    "caches": "await caches.keys()",
    "service worker": "await navigator.serviceWorker.register('worker.js')",
    "opener": "opener.document.title",
    "opener's address": "opener.location.href",
    "popup": "(await popup(base + 'lab')).document.title",
    "frame": "(await frame(base + 'lab')).contentDocument.title",
    "socket": "await socket(base + 'api/events/subscribe')",
    "XMLHttpRequest": "await request(base + 'api/contents')",
    "origin": "origin === 'null' ? deny() : origin",
}
"""What a page tries; it fails if the expression raises."""

POSSIBLE = ("fetch", "cookies", "local storage", "session storage", "databases", "caches")
"""What a page of Jupyter's own can do, so that a refusal above says something."""


@pytest.fixture
def address(server: JupyterServer, sandbox: str) -> str:
    """Serves the page from the sandbox; its address below the Jupyter server."""
    server.write(sandbox, "/tmp/page.html", hostile_page(server.url, ATTEMPTS).encode())
    server.write(sandbox, "/tmp/serve.py", PROGRAM.encode())
    return f"{server.url}sbx/port/{sandbox}/{PORT}/"


@pytest.fixture
def serving(server: JupyterServer, sandbox: str, address: str) -> None:
    connected = Sandbox.connect(sandbox, config=server.connection())
    connected.commands.run(f"exec python3 /tmp/serve.py {PORT}", background=True, timeout=None)


@pytest.fixture(scope="module")
def own_browser(driver: Playwright) -> Iterator[Browser]:
    """A Chromium of this module alone: one time in some ten, the page's context never closes."""
    with chromium(driver) as browser:
        yield browser


@pytest.fixture
def signed_in(own_browser: Browser, server: JupyterServer) -> Page:
    """A tab of a person who is signed in, on a page of Jupyter."""
    page = own_browser.new_context().new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{server.url}login?token={TOKEN}&next={BASE_URL}api/status")
    return page


def names_of_files(server: JupyterServer) -> set[str]:
    """What Jupyter's own root has; other tests may have made files there."""
    listed = httpx.get(
        f"{server.url}api/contents", headers={"Authorization": f"token {TOKEN}"}, timeout=PATIENCE
    )
    return {each["name"] for each in listed.json()["content"]}


def test_a_page_from_a_sandbox_gets_nothing_of_jupyter(
    server: JupyterServer, serving: None, address: str, signed_in: Page
) -> None:
    before = names_of_files(server)
    with signed_in.expect_popup() as opened:
        signed_in.evaluate("url => { window.open(url) }", address)
    page = opened.value
    page.wait_for_function("window.done")

    results: dict[str, Any] = page.evaluate("results")
    print("\n".join(f"{name:28} {result or 'refused'}" for name, result in results.items()))

    assert results == dict.fromkeys(ATTEMPTS)
    assert page.evaluate("own") == "own"
    assert "/~" in page.url
    cookies = {cookie.get("name", "") for cookie in signed_in.context.cookies()}
    assert "stolen" not in cookies
    assert any(name.startswith("username-") for name in cookies)
    assert names_of_files(server) == before


@pytest.mark.parametrize("name", POSSIBLE)
def test_a_page_of_jupyters_own_can_do_it(
    server: JupyterServer, signed_in: Page, name: str
) -> None:
    signed_in.evaluate(f"async base => {{ await ({ATTEMPTS[name]}); return null }}", server.url)
