"""A notebook whose kernel runs in a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator, Locator

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

KERNEL = {"name": "sbx-python3", "display_name": "Python 3 (sandbox)", "language": "python"}


class SandboxedNotebook:
    """The notebook in front of a page."""

    def __init__(self, lab: Lab, server: JupyterServer, name: str, *sources: str) -> None:
        self.lab = lab
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
        nbformat.write(made, server.root / name)
        lab.execute("docmanager:open", path=name)
        lab.wait_until("name => jupyterapp.shell.currentWidget?.context?.path === name", name)
        self.wait_idle()

    def wait_idle(self) -> None:
        self.lab.wait_until(
            "() => jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status"
            " === 'idle'",
        )

    def run(self, cell: int = 0) -> None:
        """Start one cell and scroll to it."""
        self.lab.page.evaluate(
            "at => { jupyterapp.shell.currentWidget.content.activeCellIndex = at }", cell
        )
        self.lab.execute("notebook:run-cell")

    def start(self, cell: int) -> None:
        """Start one cell without waiting for its end."""
        self.lab.page.evaluate(
            "at => { jupyterapp.shell.currentWidget.content.activeCellIndex = at;"
            " void jupyterapp.commands.execute('notebook:run-cell') }",
            cell,
        )

    def output(self, cell: int = 0) -> Locator:
        return self.lab.page.locator(".jp-Notebook:visible .jp-CodeCell").nth(cell)

    def frame(self, cell: int = 0) -> FrameLocator:
        """The inside of the first widget of a cell."""
        outer = self.output(cell).frame_locator("iframe.sbx-WidgetFrame").first
        return outer.frame_locator("iframe")

    def close(self) -> None:
        self.lab.execute("notebook:shutdown-kernel")
        self.lab.wait_until("() => !jupyterapp.shell.currentWidget.sessionContext.session?.kernel")
        self.lab.page.evaluate("jupyterapp.shell.currentWidget.dispose()")
