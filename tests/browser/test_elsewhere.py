"""Front ends and servers other than the usual one: Notebook 7, an ordinary user, a remote key."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from playwright.sync_api import expect

from sbx_jupyter.client.connection.bundled import find_engine
from tests.browser.lab import Lab
from tests.browser.notebooks import VIEWS
from tests.browser.server import CHECKOUT, TOKEN, JupyterServer, jupyter_server
from tests.engine_process import engine_process
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from tests.browser.chromium import Profile

pytestmark = pytest.mark.long


UID = 1004
AS_USER = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
PYTHON = "/usr/bin/python3"
"""That of these tests may lie where only root may go."""


def can_become_a_user() -> bool:
    """Whether another user of this machine could run the packages that these tests have."""
    if os.getuid() != 0 or shutil.which("setpriv") is None or not Path(PYTHON).exists():
        return False
    path = f"PYTHONPATH={CHECKOUT}:{sysconfig.get_path('purelib')}"
    script = "import sbx_jupyter.engine.engine, jupyterlab, subprocess, sys;"
    script += "subprocess.run([sys.executable, '-c', ''], check=True)"
    command = [*AS_USER, "env", path, PYTHON, "-B", "-c", script]
    return subprocess.run(command, capture_output=True, cwd="/").returncode == 0


def wait_gone(pid: int) -> None:
    """Wait until a process that is nobody's child here has left."""

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes() == b""
        except (FileNotFoundError, ProcessLookupError):
            return True

    until(is_gone, message=f"the engine {pid} does not stop", step=0.1)


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="sbx-lab-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def page(browser: Profile) -> Iterator[Page]:
    with browser.new_page() as page:
        yield page


def test_the_widgets_work_in_notebook_7(
    page: Page, server: JupyterServer, sandbox: str, shots: Path
):
    made = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(VIEWS.format(sandbox=sandbox))]
    )
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(made, server.root / "classic.ipynb")
    server.write(sandbox, "/home/user/seen.txt", b"from the sandbox")
    page.goto(f"{server.url}notebooks/classic.ipynb?token={TOKEN}")
    page.wait_for_function(
        "() => globalThis.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status"
        " === 'idle'",
    )

    page.evaluate("jupyterapp.commands.execute('notebook:run-cell').then(() => null)")

    page.get_by_role("treeitem", name="seen.txt", exact=True).click()
    expect(page.locator(".sbx-FileEditor-text")).to_have_value("from the sandbox")
    page.locator(".sbx-Terminal .xterm-helper-textarea").focus()
    page.keyboard.type("printf works > /tmp/widget")
    page.keyboard.press("Enter")
    server.wait_for(sandbox, "/tmp/widget", b"works")
    expect(page.locator(".sbx-MetricsChart-value").first).to_contain_text("%")
    page.screenshot(path=shots / "notebook-light.png")


VIEWS_OF_NOTEBOOK_7 = {
    # The main area has room for the notebook alone.
    "open-details": "#jp-down-stack .sbx-Details",
    "open-terminal": "#jp-down-stack .jp-Terminal",
    "open-metrics": "#jp-down-stack .sbx-MetricsWidget .sbx-MetricsChart",
    "open-storage": "#jp-down-stack .sbx-Storage",
    "open-port": "#jp-down-stack .sbx-PortPage",
    "browse-files": "#sbx-files .jp-DirListing-item",
}


def test_each_view_opens_in_notebook_7(
    page: Page, server: JupyterServer, sandbox: str, shots: Path
):
    kernel = {"name": "python3", "display_name": "Python 3"}
    made = nbformat.v4.new_notebook(metadata={"kernelspec": kernel})
    nbformat.write(made, server.root / "views.ipynb")
    server.write(sandbox, "/home/user/seen.txt", b"from the sandbox")
    page.goto(f"{server.url}notebooks/views.ipynb?token={TOKEN}")
    page.wait_for_function("() => globalThis.jupyterapp?.shell?.currentWidget?.context?.isReady")

    page.evaluate("jupyterapp.shell.activateById('sbx-panel')")
    row = page.locator("#sbx-panel .sbx-Row", has_text="workbench")
    expect(row).to_be_visible()
    for command, shown in VIEWS_OF_NOTEBOOK_7.items():
        script = "([command, args]) => void jupyterapp.commands.execute(command, args)"
        page.evaluate(script, [f"sbx:{command}", {"sandbox": sandbox, "port": 8000}])
        view = page.locator(shown).first
        expect(view).to_be_visible()
        least = 20 if command == "browse-files" else 100
        until(
            lambda view=view, least=least: (view.bounding_box() or {"height": 0})["height"] >= least
        )
        page.screenshot(path=shots / f"notebook-{command}-light.png")


@pytest.mark.skipif(
    not can_become_a_user(),
    reason="needs root, setpriv and Debian's Python of the version of these tests",
)
def test_an_ordinary_user_makes_a_sandbox_in_the_panel(page: Page, home: Path, shots: Path):
    data = home / "engine"
    settings = {"data_dir": str(data), "auto_start": True}
    # Whatever the server writes is below its home, which becomes the user's before it starts.
    own = ("sh", "-c", f'chown -R {UID}:{UID} {home} && exec "$@"', "sh", *AS_USER, PYTHON, "-B")
    try:
        with jupyter_server(home, data, settings=settings, python=own) as server:
            lab = Lab(page, server)
            lab.open()
            lab.panel.get_by_role("button", name="Create sandbox").click()

            expect(lab.rows).to_have_count(1)
            badge = lab.panel.locator(".sbx-Badge")
            badge.click()
            details = page.get_by_role("dialog", name="Isolation")
            isolation = server.http.get("info").json()["isolation"]
            expect(details).to_contain_text(isolation["tier"])
            for missing in isolation["missing"]:
                expect(details).to_contain_text(missing["remedy"])
            assert isolation["users"] != "root-mapped"
            page.screenshot(path=shots / "ordinary-user-light.png")
            assert lab.errors == []
    finally:
        if (engine := find_engine(data)) is not None:
            os.kill(engine.pid, signal.SIGTERM)
            wait_gone(engine.pid)


def test_a_refused_key_is_told_with_what_to_do_and_another_connection_chosen(
    page: Page, home: Path, shots: Path
):
    with engine_process("remote") as engine:
        url = engine.connection.url
        settings = {"api_url": url, "sandbox_url": url, "api_key": "e2b_" + "0" * 40}
        settings |= {"data_dir": str(engine.data_dir), "auto_start": False}
        with jupyter_server(home, home / "unused", settings=settings) as server:
            lab = Lab(page, server)
            lab.open()
            told = lab.panel.get_by_role("alert")

            expect(told).to_contain_text("refuses the API key")
            expect(told).to_contain_text(url.partition("//")[2])
            expect(told).to_contain_text("c.SbxExtension.api_key")
            expect(lab.panel.locator(".sbx-Badge")).to_contain_text("Remote")
            switch = lab.panel.get_by_role("combobox", name="Connection")
            expect(switch).to_have_value("remote")
            page.screenshot(path=shots / "refused-light.png")

            switch.select_option(label="This machine")

            expect(switch).to_be_enabled()
            expect(switch).to_have_value("local")
            expect(told).to_have_count(0)
            expect(lab.panel.get_by_role("button", name="Create sandbox")).to_be_visible()
            lab.shoot(shots, "connections")
