"""The widgets in a notebook, through the server and through the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.notebooks import end_second_cell, run_first_cell

if TYPE_CHECKING:
    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer


def check_views(lab: Lab, sandbox: str, server: JupyterServer) -> None:
    entry = lab.page.get_by_role("treeitem", name="seen.txt", exact=True)
    entry.click()
    editor = lab.page.locator(".sbx-FileEditor-text")
    expect(editor).to_have_value("from the sandbox")
    editor.fill("changed in the notebook")
    lab.page.locator(".sbx-FileEditor").get_by_role("button", name="Save").click()
    server.wait_for(sandbox, "/home/user/seen.txt", b"changed in the notebook")

    type_in_widget(lab, "printf works > /tmp/widget")
    server.wait_for(sandbox, "/tmp/widget", b"works")
    expect(lab.page.locator(".sbx-MetricsChart-value").first).to_contain_text("%")


def type_in_widget(lab: Lab, text: str) -> None:
    lab.page.locator(".sbx-Terminal .xterm-helper-textarea").focus()
    lab.page.keyboard.type(text)
    lab.page.keyboard.press("Enter")


def runtime_requests(lab: Lab, sandbox: str) -> list[str]:
    return [url for url in lab.requests if f"/sbx/api/sandboxes/{sandbox}/" in url]


@pytest.mark.usefixtures("notebook")
def test_the_views_use_the_server_of_their_page(lab: Lab, sandbox: str, server: JupyterServer):
    run_first_cell(lab)
    check_views(lab, sandbox, server)
    assert runtime_requests(lab, sandbox) != []


@pytest.mark.usefixtures("notebook")
def test_the_views_go_through_the_kernel_where_the_server_has_no_extension(
    lab: Lab, sandbox: str, server: JupyterServer
):
    lab.page.route(f"**/sbx/api/sandboxes/{sandbox}", lambda route: route.fulfill(status=404))
    run_first_cell(lab)
    check_views(lab, sandbox, server)
    assert runtime_requests(lab, sandbox) == []


def test_a_terminal_through_the_kernel_is_live_while_a_cell_runs(
    lab: Lab, sandbox: str, server: JupyterServer, notebook: str
):
    lab.page.route(f"**/sbx/api/sandboxes/{sandbox}", lambda route: route.fulfill(status=404))
    run_first_cell(lab)
    type_in_widget(lab, "printf before > /tmp/before")
    server.wait_for(sandbox, "/tmp/before", b"before")
    lab.page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex = 1")
    lab.page.evaluate("void jupyterapp.commands.execute('notebook:run-cell')")
    cell = lab.page.locator(".jp-CodeCell").nth(1)
    expect(cell.locator(".jp-OutputArea-output")).to_contain_text("begun")

    type_in_widget(lab, "printf live > /tmp/live")
    server.wait_for(sandbox, "/tmp/live", b"live")

    prompt = cell.locator(".jp-InputPrompt")
    assert prompt.inner_text() == "[*]:"
    end_second_cell(notebook, server)
    expect(prompt).to_have_text("[2]:")
