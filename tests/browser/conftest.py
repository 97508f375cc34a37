"""A real engine, a real JupyterLab and a real Chromium, all private to the session."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.chromium import PATIENCE_MS, Profile, chromium_profile
from tests.browser.lab import Lab
from tests.browser.notebooks import open_notebook
from tests.browser.server import JupyterServer, jupyter_server
from tests.engine_process import engine_process

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from playwright.sync_api import Playwright

# Longer than the panel's interval, so that what was made elsewhere has come by itself.
expect.set_options(timeout=PATIENCE_MS)

TIMEOUT = 400
"""Seconds, for several waits of ``PATIENCE_MS`` each."""

SHOTS = Path(__file__).parent / "shots"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests in a browser more time than others have."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell with a failure what the page said at that moment."""
    report = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if report.when == "call" and report.failed and lab is not None:
        report.sections.append(("what the page said", lab.messages()))
    return report


@pytest.fixture(scope="session")
def server() -> Iterator[JupyterServer]:
    home = Path(tempfile.mkdtemp(prefix="sbx-lab-", dir="/tmp"))
    try:
        with engine_process("browser") as engine, jupyter_server(home, engine.data_dir) as running:
            yield running
    finally:
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def driver() -> Iterator[Playwright]:
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="session")
def browser(driver: Playwright) -> Iterator[Profile]:
    with chromium_profile(driver) as browser:
        yield browser


@pytest.fixture
def no_sandboxes(server: JupyterServer) -> None:
    for sandbox_id in server.sandboxes():
        server.kill(sandbox_id)


@pytest.fixture
def sandbox(server: JupyterServer) -> Iterator[str]:
    sandbox_id = server.create("workbench")
    yield sandbox_id
    server.kill(sandbox_id)


@pytest.fixture
def lab(browser: Profile, server: JupyterServer) -> Iterator[Lab]:
    """A fresh JupyterLab page; at the end no script error and no request elsewhere."""
    with browser.new_page() as page:
        lab = Lab(page, server)
        lab.open()
        yield lab
    assert lab.errors == [], lab.stacks
    assert [url for url in lab.requests if not url.startswith(server.url)] == []


@pytest.fixture
def notebook(lab: Lab, sandbox: str, server: JupyterServer) -> str:
    """A notebook in front with the widgets of the sandbox in its first cell."""
    return open_notebook(lab, sandbox, server)


@pytest.fixture
def shots() -> Path:
    SHOTS.mkdir(exist_ok=True)
    return SHOTS
