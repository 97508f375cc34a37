"""Streamlit, Gradio, Dash, FastAPI's documentation and Vite behind the proxy of ports.

Each is started once, without being told its address, and used in Chromium in both modes.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.client import ConnectionConfig, Sandbox
from tests.applications.conftest import MODES
from tests.applications.programs import APPLICATIONS, STARTS, Application, file_of_cdn, packed
from tests.browser.server import BASE_URL, TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tests.browser.server import JupyterServer
    from tests.engine_process import EngineProcess

pytestmark = pytest.mark.timeout(900)
PORT = 8000


@pytest.fixture(scope="module", params=APPLICATIONS, ids=lambda each: each.name)
def application(request: pytest.FixtureRequest) -> Application:
    return request.param


@pytest.fixture(scope="module")
def sandbox_id(application: Application, engine: EngineProcess) -> Iterator[str]:
    """A sandbox in which the application runs."""
    try:
        archive = packed(application)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{application.name} cannot be installed here: {error}")
    config = ConnectionConfig.from_connection_file(engine.connection)
    with Sandbox.create(timeout=3600, config=config) as sandbox:
        with archive.open("rb") as content:
            sandbox.files.write("/home/user/packages.tar", content)
        sandbox.commands.run("mkdir packages && tar -C packages -xf packages.tar", timeout=300)
        for name, text in application.files.items():
            sandbox.files.write(f"/home/user/{name}", text)
        sandbox.commands.run(
            f"{{ {application.command}; }} > log 2>&1", background=True, timeout=None
        )
        until_listening(sandbox)
        yield sandbox.sandbox_id


def until_listening(sandbox: Sandbox) -> None:
    """Wait until the application listens; shows what it wrote if it does not."""
    probe = f"(: < /dev/tcp/127.0.0.1/{PORT}) 2>&- && exit; sleep 0.1"
    script = f"for _ in $(seq 1000); do {probe}; done; tail -n 40 log; exit 1"
    sandbox.commands.run(f"bash -c '{script}'", timeout=2 * STARTS / 1000)


@pytest.fixture
def page(browser: Browser, mode: str, servers: dict[str, JupyterServer]) -> Iterator[Page]:
    """A tab of somebody who is signed in."""
    with browser.new_context() as context:
        page = context.new_page()
        page.route(
            "https://cdn.jsdelivr.net/npm/**",
            lambda route: route.fulfill(path=file_of_cdn(route.request.url)),
        )
        page.goto(f"{servers[mode].url}login?token={TOKEN}&next={BASE_URL}api/status")
        yield page


@pytest.mark.parametrize("mode", MODES)
def test_the_application_works(
    application: Application,
    sandbox_id: str,
    mode: str,
    servers: dict[str, JupyterServer],
    page: Page,
) -> None:
    if mode not in application.works:
        pytest.skip(f"{application.name} needs a host name")
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
    page.on(
        "response",
        lambda got: problems.append(f"{got.status} {got.url}") if got.status >= 400 else None,
    )
    url = servers[mode].url

    page.goto(f"{url}sbx/port/{sandbox_id}/{PORT}{application.path}")
    assert (".localhost:" in page.url) == (mode == "host"), page.url

    try:
        application.use(page)
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *problems])) from None
