"""A notebook whose kernel runs in a sandbox: it works, and cannot act in the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.sandboxed import SandboxedNotebook

if TYPE_CHECKING:
    from pathlib import Path

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
display(HTML(f"<h1>drawn</h1><script>{attack}</script><img src=x onerror='{attack}'>"))
display(Javascript(attack))
display(SVG(f"<svg xmlns='http://www.w3.org/2000/svg' onload='{attack}'/>"))
display(Markdown(f"<img src=x onerror='{attack}'>"))
cover = r"$\\style{position:fixed;background:url(/covers)}{x}$"
display(HTML(f"<table><tr><td>in a table {cover}</td></tr></table>"))
display(Markdown(f"in a text {cover}"))
display(Markdown("a formula $x^2$"))
display({"application/vnd.jupyter.widget-view+json": {"model_id": "x"}}, raw=True)
print("shown in", __import__("socket").gethostname())
"""
ENDLESS = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)"
TRUSTED = "[...jupyterapp.shell.currentWidget.content.model.cells].map(cell => cell.trusted)"


def test_a_hostile_kernel_does_not_reach_the_page(lab: Lab, server: JupyterServer, shots: Path):
    notebook = SandboxedNotebook(lab, server, "hostile.ipynb", HOSTILE, ENDLESS)
    notebook.run()
    output = notebook.output()
    expect(output).to_contain_text("shown in i")
    # Untrusted cells have frames all the same.
    frames = output.locator("iframe[sandbox='allow-scripts']")
    expect(frames).to_have_count(2)
    inside = output.frame_locator("iframe").first.frame_locator("iframe")
    expect(inside.get_by_role("heading", name="drawn")).to_be_visible()
    expect(output).to_contain_text("[a widget]")
    # Of the formulas, the one that cannot act is drawn.
    expect(output.locator("mjx-container")).to_have_count(1)
    expect(output).to_contain_text("in a table $\\style")
    expect(output).to_contain_text("in a text $\\style")
    # The scripts in the frames have run, or tried to.
    for frame in lab.page.frames[1:]:
        frame.wait_for_load_state()
    assert lab.page.evaluate("window.hacked") is None
    # Each attempt of the frames failed at their own edge.
    assert lab.errors
    assert all('origin "null" from accessing a cross-origin frame' in e for e in lab.errors)
    lab.errors.clear()

    # The panel and the status bar say which sandbox is this notebook's.
    row = lab.row("kernel of hostile.ipynb")
    expect(row.get_by_text("This notebook")).to_be_visible()
    expect(lab.page.locator(".sbx-Status")).to_have_text("kernel of hostile.ipynb")

    notebook.start(1)
    endless = notebook.output(1)
    expect(endless).to_contain_text("begun")
    lab.execute("notebook:interrupt-kernel")
    expect(endless).to_contain_text("KeyboardInterrupt")
    lab.shoot(shots, "interrupt")

    assert lab.page.evaluate(TRUSTED) == [False, False]
    lab.page.evaluate("void jupyterapp.commands.execute('notebook:trust')")
    lab.page.get_by_role("button", name="Confirm Trusting").click()
    warning = lab.page.locator(".jp-Dialog", has_text="Trust what a sandbox wrote?")
    expect(warning).to_contain_text("your files and your credentials")
    lab.shoot(shots, "trust")
    warning.get_by_role("button", name="Cancel").click()
    expect(lab.page.locator(".jp-Dialog")).to_have_count(0)
    assert lab.page.evaluate(TRUSTED) == [False, False]

    # Opened again, the notebook draws nothing before somebody asks for it.
    lab.execute("docmanager:save")
    lab.page.evaluate("jupyterapp.shell.currentWidget.dispose()")
    lab.execute("docmanager:open", path="hostile.ipynb")
    held = notebook.output().locator(".sbx-HeldOutput")
    expect(held).to_have_count(2)
    expect(notebook.output().locator("iframe")).to_have_count(0)
    assert lab.page.evaluate(TRUSTED) == [False, False]
    lab.shoot(shots, "held-output")
    held.first.get_by_role("button", name="Draw it").click()
    expect(inside.get_by_role("heading", name="drawn")).to_be_visible()
    lab.errors.clear()
    notebook.close()
