"""A page at a host name of its own attacks Jupyter and another port of its sandbox, in Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from tests.browser.ports.hostile_page import PROGRAM, hostile_page
from tests.browser.server import BASE_URL, TOKEN
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tests.browser.server import JupyterServer
    from tests.engine_process import EngineProcess

PORT, OTHER_PORT = 8000, 8001
OTHER = f"location.href.replace('//{PORT}-', '//{OTHER_PORT}-')"

ATTEMPTS = {
    "fetch": "await (await fetch(base + 'api/contents', {credentials: 'include'})).text()",
    "XMLHttpRequest": "await request(base + 'api/contents')",
    "socket": "await socket(base + 'api/events/subscribe')",
    "service worker": "await navigator.serviceWorker.register(base + 'worker.js')",
    "opener": "opener.document.title",
    "opener's address": "opener.location.href",
    "moving the opener": "opener.location = 'about:blank'",
    "popup": "(await popup(base + 'lab')).document.title",
    "frame": "(await frame(base + 'lab')).contentDocument.title",
    "domain": "document.domain = 'localhost'",
    "other port: fetch": f"await (await fetch({OTHER}, {{credentials: 'include'}})).text()",
    "other port: picture": f"await fails(Object.assign(new Image(), {{src: {OTHER}}}), 'onload')",
    "other port: frame": f"(await frame({OTHER})).contentDocument.title",
    "other port: socket": f"await socket({OTHER})",
}


@pytest.fixture
def jupyter(servers: dict[str, JupyterServer]) -> str:
    """Jupyter's address by the name whose cookies a page below ``.localhost`` could want."""
    return servers["host"].url.replace("127.0.0.1", "localhost")


@pytest.fixture
def sandbox(engine: EngineProcess, jupyter: str) -> Iterator[Sandbox]:
    """Serves the page at two ports."""
    config = ConnectionConfig.from_connection_file(engine.connection)
    with Sandbox.create(timeout=600, config=config) as sandbox:
        sandbox.files.write("/tmp/page.html", hostile_page(jupyter, ATTEMPTS))
        sandbox.files.write("/tmp/serve.py", PROGRAM)
        for port in (PORT, OTHER_PORT):
            command = f"exec python3 /tmp/serve.py {port}"
            sandbox.commands.run(command, background=True, timeout=None)
        yield sandbox


@pytest.fixture
def signed_in(browser: Browser, jupyter: str) -> Iterator[Page]:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{jupyter}login?token={TOKEN}&next={BASE_URL}api/status")
        yield page


def names_of_files(jupyter: str) -> set[str]:
    listed = httpx.get(
        f"{jupyter}api/contents", headers={"Authorization": f"token {TOKEN}"}, timeout=PATIENCE
    )
    return {each["name"] for each in listed.raise_for_status().json()["content"]}


def test_a_page_at_a_host_name_gets_nothing_of_jupyter_nor_of_another_port(
    jupyter: str, sandbox: Sandbox, signed_in: Page
) -> None:
    ports = f"{jupyter}sbx/port/{sandbox.sandbox_id}/"
    before = names_of_files(jupyter)
    with signed_in.context.new_page() as other:
        other.goto(f"{ports}{OTHER_PORT}/own")
        assert other.content().count("own") == 1
        assert f"//{OTHER_PORT}-" in other.url
    with signed_in.context.expect_page() as opened:
        signed_in.evaluate("url => { window.open(url) }", f"{ports}{PORT}/")
    page = opened.value
    page.wait_for_function("window.done", timeout=90_000)

    results: dict[str, Any] = page.evaluate("results")
    print("\n".join(f"{name:28} {result or 'refused'}" for name, result in results.items()))

    assert results == dict.fromkeys(ATTEMPTS)
    assert f"//{PORT}-" in page.url
    assert names_of_files(jupyter) == before


def test_cookies_of_a_host_name_and_of_jupyter_stay_apart(
    jupyter: str, sandbox: Sandbox, signed_in: Page
) -> None:
    signed_in.goto(f"{jupyter}sbx/port/{sandbox.sandbox_id}/{PORT}/own")
    name = signed_in.evaluate("location.hostname")

    signed_in.evaluate("document.cookie = 'wide=yes; domain=localhost; path=/'")
    seen = signed_in.evaluate("fetch('/cookies').then(answer => answer.text())")

    cookies = signed_in.context.cookies()
    assert seen == signed_in.evaluate("document.cookie") == "stolen=yes"
    assert {each.get("domain") for each in cookies if each.get("name") == "stolen"} == {name}
    assert "wide" not in {each.get("name") for each in cookies}
    login = [each for each in cookies if each.get("name", "").startswith("username-")]
    assert {each.get("domain") for each in login} == {"localhost"}
