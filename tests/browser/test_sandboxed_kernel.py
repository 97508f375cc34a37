"""A notebook whose kernel runs in a sandbox: it works, and cannot act in the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat
from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

HOSTILE = """
from comm import create_comm
from IPython.display import HTML, SVG, Javascript, Markdown, display
attack = "parent.hacked = top.hacked = window.hacked = 1"
create_comm(target_name="jupyter.widget", data={"state": {
    "_model_module": "anywidget", "_model_name": "AnyModel", "_model_module_version": "*",
    "_esm": f"{attack}; export default {{ initialize() {{ {attack} }} }}",
}})
display(HTML(f"<script>{attack}</script><img src=x onerror='{attack}'>"))
display(Javascript(attack))
display(SVG(f"<svg xmlns='http://www.w3.org/2000/svg' onload='{attack}'/>"))
display(Markdown(f"<img src=x onerror='{attack}'>"))
display({"application/vnd.jupyter.widget-view+json": {"model_id": "x"}}, raw=True)
print("shown in", __import__("socket").gethostname())
"""


def test_a_hostile_kernel_does_not_reach_the_page(lab: Lab, server: JupyterServer):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(HOSTILE)])
    made.metadata["kernelspec"] = {
        "name": "sbx-python3",
        "display_name": "Python 3 (sandbox)",
        "language": "python",
    }
    nbformat.write(made, server.root / "hostile.ipynb")
    lab.execute("docmanager:open", path="hostile.ipynb")
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
        timeout=50_000,
    )
    lab.execute("notebook:run-all-cells")
    output = lab.page.locator(".jp-Notebook:visible .jp-OutputArea").first
    expect(output).to_contain_text("shown in i", timeout=30_000)
    expect(output.locator("iframe[sandbox='allow-scripts']")).to_have_count(2)
    expect(output).to_contain_text("[a widget]")
    # The scripts in the frames have run, or tried to.
    for frame in lab.page.frames[1:]:
        frame.wait_for_load_state()
    assert lab.page.evaluate("window.hacked") is None
    # Each attempt of the frames failed at their own edge.
    assert lab.errors
    assert all('origin "null" from accessing a cross-origin frame' in e for e in lab.errors)
    lab.errors.clear()
    lab.execute("notebook:shutdown-kernel")
    lab.wait_until("() => !jupyterapp.shell.currentWidget.sessionContext.session?.kernel")
    lab.page.evaluate("jupyterapp.shell.currentWidget.dispose()")
