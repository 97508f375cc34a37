"""A sandboxed kernel draws in the page after a warning, and dies in a way that is said there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.sandboxed import SandboxedNotebook

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

pytestmark = pytest.mark.long

DRAWS = """
from IPython.display import HTML, Javascript, display
import ipywidgets
display(HTML("<b class='drawn'>bold</b>"), Javascript("window.drawn = 1"))
display(ipywidgets.IntSlider(description="direct"))
print("in", __import__("socket").gethostname())
"""
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
TRUSTED = "[...jupyterapp.shell.currentWidget.content.model.cells].map(cell => cell.trusted)"


def test_a_kernel_draws_in_the_page_when_its_user_says_so(
    lab: Lab, server: JupyterServer, shots: Path
):
    notebook = SandboxedNotebook(lab, server, "draws.ipynb", DRAWS)
    notebook.run()
    output = notebook.output()
    expect(output).to_contain_text("in i")
    assert lab.page.evaluate("window.drawn") is None
    toolbar = lab.page.locator(".jp-NotebookPanel-toolbar:visible")
    toolbar.get_by_role("button", name="Draws in frames").click()
    warning = lab.page.locator(".jp-Dialog", has_text="Let this kernel draw in the page?")
    expect(warning).to_contain_text("your files and your credentials")
    lab.shoot(shots, "draw-in-page-question")
    warning.get_by_role("button", name="Let it draw in the page").click()
    expect(toolbar.get_by_role("button", name="Draws in the page")).to_be_visible()

    notebook.run()
    lab.wait_until("() => window.drawn === 1")
    expect(output.locator("b.drawn")).to_have_text("bold")
    # JupyterLab's own renderer draws the widget, in the page.
    expect(output.locator(".widget-slider", has_text="direct")).to_be_visible()
    expect(output.locator("iframe")).to_have_count(0)
    assert lab.page.evaluate(TRUSTED) == [False]
    lab.shoot(shots, "draw-in-page")

    # Neither the file nor the page that is loaded again knows of it.
    lab.execute("docmanager:save")
    saved = json.loads((server.root / "draws.ipynb").read_text())
    assert "trusted" not in saved["cells"][0]["metadata"]
    lab.reload()
    lab.wait_until("() => jupyterapp.shell.currentWidget?.context?.path === 'draws.ipynb'")
    notebook.wait_idle()
    expect(toolbar.get_by_role("button", name="Draws in frames")).to_be_visible()
    expect(output).to_contain_text("in i")
    expect(output.locator("b.drawn")).to_have_count(0)
    assert lab.page.evaluate("window.drawn") is None
    lab.errors.clear()
    notebook.close()


def test_a_kernel_that_died_of_memory_restarts_in_a_larger_sandbox(
    lab: Lab, server: JupyterServer, shots: Path
):
    notebook = SandboxedNotebook(lab, server, "dies.ipynb", "open('kept', 'w').write('1')", DIES)
    notebook.run()
    notebook.start(1)
    expect(notebook.output(1)).to_contain_text("ran out of memory")
    # JupyterLab says that it restarts the kernel.
    told = lab.page.locator(".jp-Dialog", has_text="Kernel Restarting")
    told.get_by_role("button", name="Ok").click()
    toast = lab.page.locator(".Toastify__toast", has_text="The kernel of dies.ipynb was killed")
    lab.shoot(shots, "kernel-died")
    toast.get_by_role("button", name="Restart in a larger sandbox").click()
    form = lab.page.locator(".jp-Dialog", has_text="Restart in another sandbox")
    memory = form.get_by_role("spinbutton", name="Memory")
    expect(memory).to_have_value("2048")
    lab.shoot(shots, "larger-sandbox")
    memory.fill("1536")
    expect(form.get_by_role("checkbox", name="Keep the files")).to_be_checked()
    form.get_by_role("button", name="Restart").click()
    expect(lab.page.get_by_text("The kernel runs in the other sandbox")).to_be_visible()
    notebook.wait_idle()
    kernels = server.http.get("sandboxes").json()
    found = [each["memoryMB"] for each in kernels["sandboxes"] if "dies" in str(each["metadata"])]
    assert found == [1536]
    notebook.close()
