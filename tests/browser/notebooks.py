"""A notebook that shows the widgets of a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat

if TYPE_CHECKING:
    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

VIEWS = """
from sbx_jupyter import FileBrowser, MetricsChart, Sandbox, Terminal
sandbox = Sandbox.connect("{sandbox}")
display(FileBrowser(sandbox), Terminal(sandbox), MetricsChart(sandbox))
"""
BUSY = """
import pathlib, time
print("begun", flush=True)
while not pathlib.Path("{name}.go").exists(): time.sleep(0.1)
"""
"""Keeps the kernel busy until ``end_second_cell``."""


def open_notebook(lab: Lab, sandbox: str, server: JupyterServer) -> str:
    """Open it in front, its kernel ready: the views, then a cell that keeps the kernel busy."""
    name = f"widgets-{sandbox}.ipynb"
    sources = (VIEWS.format(sandbox=sandbox), BUSY.format(name=name))
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(made, server.root / name)
    server.write(sandbox, "/home/user/seen.txt", b"from the sandbox")
    lab.execute("docmanager:open", path=name)
    lab.wait_until("name => jupyterapp.shell.currentWidget?.context?.path === name", name)
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'",
    )
    return name


def run_first_cell(lab: Lab) -> None:
    lab.execute("notebook:run-cell")
    lab.page.locator(".sbx-Files").wait_for()
    lab.page.locator(".sbx-Terminal .xterm-screen").wait_for()


def end_second_cell(name: str, server: JupyterServer) -> None:
    """Let the cell end that keeps the kernel of a notebook busy."""
    (server.root / f"{name}.go").touch()
