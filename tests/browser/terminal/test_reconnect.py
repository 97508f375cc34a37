"""Terminals that lose their connection: output is shown once and in order."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.notebooks import open_notebook, run_first_cell
from tests.browser.server import JupyterServer, jupyter_server
from tests.engine_process import EngineProcess, engine_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.chromium import Profile

pytestmark = pytest.mark.long


COUNT = 400
"""Fewer lines than a terminal of JupyterLab keeps."""

COUNTING = f"for i in $(seq {COUNT}); do echo line-$i; sleep 0.025; done"

LINES = """() => {
  const buffer = jupyterapp.shell.currentWidget.content._term.buffer.active;
  const lines = Array.from({length: buffer.length}, (_, at) => buffer.getLine(at));
  return lines.map(line => line.translateToString(true)).filter(line => /^line-\\d+$/.test(line));
}"""


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    with engine_process("reconnect") as running:
        yield running


@pytest.fixture
def server(engine: EngineProcess) -> Iterator[JupyterServer]:
    home = Path(tempfile.mkdtemp(prefix="sbx-lab-", dir="/tmp"))
    try:
        with jupyter_server(home, engine.data_dir) as running:
            yield running
    finally:
        shutil.rmtree(home)


@pytest.fixture
def page_of_server(browser: Profile, server: JupyterServer) -> Iterator[Lab]:
    """A page whose server goes away, so that failed requests are expected."""
    with browser.new_page() as page:
        lab = Lab(page, server)
        lab.open()
        yield lab
        assert lab.errors == []


def restart(engine: EngineProcess) -> None:
    engine.kill()
    engine.start()


def test_a_terminal_of_lab_shows_each_line_once(
    page_of_server: Lab, server: JupyterServer, engine: EngineProcess, shots: Path
):
    lab = page_of_server
    sandbox = server.create("workbench")
    lab.execute("sbx:open-terminal", sandbox=sandbox)
    connected = "() => jupyterapp.shell.currentWidget?.connection?.connectionStatus === 'connected'"
    lab.wait_until(connected)
    lab.type_in_terminal(COUNTING)

    lab.wait_until(f"() => ({LINES})().length > 20")
    restart(engine)
    lab.wait_until(f"() => ({LINES})().length > 150")
    server.crash()
    banner = lab.page.locator(".sbx-TerminalWidget-banner")
    expect(banner.get_by_role("status")).to_have_text(
        "The connection to the terminal is lost. Trying again…"
    )
    lab.page.screenshot(path=shots / "reconnecting-light.png")
    server.restart()
    lab.wait_until(f"() => ({LINES})().length >= {COUNT}")
    assert lab.page.evaluate(LINES) == [f"line-{number + 1}" for number in range(COUNT)]
    expect(banner).to_be_hidden()


def test_a_terminal_of_a_widget_shows_each_line_once(
    page_of_server: Lab, server: JupyterServer, engine: EngineProcess
):
    lab = page_of_server
    sandbox = server.create("workbench")
    open_notebook(lab, sandbox, server)
    run_first_cell(lab)
    screen = lab.page.locator(".sbx-Terminal .xterm-rows")
    lab.page.locator(".sbx-Terminal .xterm-helper-textarea").focus()
    lab.page.keyboard.type(COUNTING)
    lab.page.keyboard.press("Enter")

    expect(screen).to_contain_text("line-60")
    restart(engine)

    expect(screen).to_contain_text(f"line-{COUNT}")
    shown = [
        int(number)
        for number in re.findall(r"line-(\d+)", "\n".join(screen.locator("div").all_inner_texts()))
    ]
    assert shown == list(range(shown[0], COUNT + 1))
    expect(lab.page.locator(".sbx-Terminal-message")).to_be_hidden()
