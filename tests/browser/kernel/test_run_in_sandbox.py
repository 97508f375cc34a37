"""The kernel of a notebook starts again in a sandbox, after a dialog that names what that sees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import nbformat
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

WHERE = "import os; print('in', os.environ.get('E2B_SANDBOX_ID'))"


def test_a_kernel_moves_into_a_sandbox_and_what_it_shows_is_named(
    lab: Lab, server: JupyterServer, shots: Path
):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(WHERE)])
    made.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(made, server.root / "moves.ipynb")
    lab.execute("docmanager:open", path="moves.ipynb")
    session = "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"
    lab.wait_until(f"() => {session}?.name === 'python3' && {session}.status === 'idle'")
    described = {"kernel": "sbx-other", "isThere": False, "shown": ["/opt/other/environment"]}
    lab.page.route(
        "**/sbx/api/kernelspecs/python3*",
        lambda route: route.fulfill(status=200, body=json.dumps(described)),
        times=1,
    )

    lab.page.evaluate("() => void jupyterapp.commands.execute('sbx:run-in-sandbox')")
    dialog = lab.page.locator(".jp-Dialog", has_text="Run this kernel in a sandbox?")
    expect(dialog.locator("code")).to_have_text("/opt/other/environment")
    lab.shoot(shots, "run-in-sandbox-shows")
    dialog.get_by_role("button", name="Cancel").click()
    assert lab.page.evaluate(f"() => {session}.name") == "python3"

    lab.page.evaluate("() => void jupyterapp.commands.execute('sbx:run-in-sandbox')")
    expect(dialog.locator("code")).to_have_count(0)
    lab.shoot(shots, "run-in-sandbox")
    dialog.get_by_role("button", name="Run in a Sandbox").click()
    lab.wait_until(f"() => {session}?.name === 'sbx-python3' && {session}.status === 'idle'")
    lab.execute("notebook:run-cell")
    output = lab.page.locator(".jp-Notebook:visible .jp-CodeCell").first
    expect(output).to_contain_text("in i")
    lab.execute("notebook:shutdown-kernel")
    lab.wait_until(f"() => !{session}")
