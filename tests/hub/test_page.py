"""What a person does on a page of JupyterLab below a JupyterHub, and a page that nobody touches."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.chromium import chromium
from tests.hub.hub import USERS
from tests.hub.test_hub import ids
from tests.server.ports.programs import PROGRAM
from tests.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tests.hub.conftest import Setup

pytestmark = pytest.mark.timeout(1200)

ANN, BOB = USERS
STARTS = 120_000
JUPYTERLABS_OWN = re.compile(r"/user/[^/]+/(lab/)?api/")
"""Addresses that JupyterLab asks by itself again and again, its list of files among them."""
IDLE_SECONDS = float(os.environ.get("SBX_HUB_IDLE_SECONDS", "20"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver, chromium(driver) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, setup: Setup) -> Iterator[Page]:
    """JupyterLab of somebody who signed in at the hub, with the panel in front."""
    with browser.new_context(viewport={"width": 1300, "height": 800}) as context:
        page = context.new_page()
        page.goto(f"{setup.hub.url}/hub/login")
        page.locator("input[name=username]").fill(BOB)
        page.locator("input[name=password]").fill(setup.hub.token)
        page.locator("input[type=submit]").click()
        page.wait_for_selector("#sbx-panel", state="attached", timeout=STARTS)
        page.evaluate("jupyterapp.restored.then(() => null)")
        page.evaluate("jupyterapp.shell.activateById('sbx-panel')")
        yield page


def test_a_person_uses_a_sandbox(setup: Setup, page: Page) -> None:
    panel = page.locator("#sbx-panel")
    panel.get_by_role("button", name="Create sandbox").click(timeout=STARTS)
    expect(panel.locator(".sbx-Row:not(.sbx-mod-creating)")).to_have_count(1, timeout=STARTS)
    with setup.hub.client(BOB) as client:
        [sandbox_id] = ids(client)
        files = f"api/sandboxes/{sandbox_id}/files"
        headers = {"Content-Type": "application/octet-stream"}
        program = {"path": "/tmp/program.py"}
        client.post(files, params=program, content=PROGRAM.read_bytes(), headers=headers)

        execute = (
            "id => jupyterapp.commands.execute('sbx:open-terminal', {sandbox: id}).then(() => null)"
        )
        page.evaluate(execute, sandbox_id)
        page.locator(".jp-Terminal:visible .xterm-helper-textarea").focus(timeout=STARTS)
        page.keyboard.type("setsid python3 /tmp/program.py 8000 & printf typed > /tmp/typed")
        page.keyboard.press("Enter")
        typed = lambda: client.get(files, params={"path": "/tmp/typed"}).text == "typed"  # noqa: E731
        until(typed, 60)

        page.goto(f"{setup.hub.address(BOB)}sbx/port/{sandbox_id}/8000/from-the-page")
        expect(page.locator("body")).to_contain_text("/from-the-page")
        assert f"/sbx/port/{sandbox_id}/8000/~" in page.url
        assert "cookie" not in page.locator("body").inner_text().lower()
        client.delete(f"api/sandboxes/{sandbox_id}")


def test_a_page_that_nobody_touches_is_not_activity(setup: Setup, page: Page) -> None:
    """Neither of the server nor of the hub's proxy, which takes each answered request for one."""
    expect(page.locator("#sbx-panel")).to_contain_text("Sandboxes", timeout=STARTS)
    page.route(JUPYTERLABS_OWN, lambda route: route.abort())
    target = setup.hub.route(BOB)["target"]
    headers = {"Authorization": f"token {setup.hub.token_of(BOB)}"}

    def last() -> tuple[str, str]:
        """Asks the server itself: by the proxy, the question would be activity."""
        answer = httpx.get(f"{target}/user/{BOB}/api/status", headers=headers, timeout=PATIENCE)
        of_server = answer.raise_for_status().json()["last_activity"]
        return of_server, setup.hub.route(BOB)["last_activity"]

    def settled() -> bool:
        first = last()
        page.wait_for_timeout(6000)
        return last() == first

    until(settled, 120, "the page never came to rest")
    before, started = last(), time.monotonic()
    page.wait_for_timeout(IDLE_SECONDS * 1000)
    after, waited = last(), time.monotonic() - started
    print(f"\nidle for {waited:.0f} s: server {before[0]} then {after[0]},")
    print(f"proxy {before[1]} then {after[1]}")

    assert after == before
