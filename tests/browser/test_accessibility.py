"""What axe-core finds in the panel, its dialogs and the widgets: nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.notebooks import run_first_cell
from tests.browser.server import CHECKOUT

if TYPE_CHECKING:
    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

AXE = CHECKOUT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not AXE.exists(),
        reason="needs axe-core, which jlpm installs in labextension when the front end is built",
    ),
]

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def check(lab: Lab, selector: str) -> None:
    """Look through what the selector matches, for people who see, hear or type differently."""
    if not lab.page.evaluate("'axe' in window"):
        lab.page.evaluate(Path(AXE).read_text() + "; null")
    found = lab.page.evaluate(
        """async ([selector, tags]) => {
          const { violations } = await axe.run(selector, { runOnly: tags });
          return violations.flatMap(({ id, nodes }) =>
            nodes.map(node => `${id}: ${node.target} ${node.failureSummary}`));
        }""",
        [selector, RULES],
    )
    assert found == []


def close_dialog(lab: Lab) -> None:
    lab.page.keyboard.press("Escape")
    lab.page.locator(".jp-Dialog").wait_for(state="detached")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_panel_its_popover_and_its_dialogs(
    lab: Lab, sandbox: str, server: JupyterServer, theme: str
):
    lab.use_theme(theme)
    paused = server.create(f"at rest, {theme}")
    server.http.post(f"sandboxes/{paused}/pause", json={}).raise_for_status()
    lab.execute("sbx:refresh")
    expect(lab.row(f"at rest, {theme}")).to_contain_text("paused")
    lab.row("workbench").hover()
    check(lab, "#sbx-panel")

    lab.panel.locator(".sbx-Badge").click()
    lab.page.locator(".sbx-Popover").wait_for()
    check(lab, ".sbx-Popover")
    lab.page.keyboard.press("Escape")
    for command in ("sbx:kill", "sbx:create-with-options", "sbx:show-isolation"):
        script = "([command, args]) => void jupyterapp.commands.execute(command, args)"
        lab.page.evaluate(script, [command, {"sandbox": sandbox}])
        lab.page.locator(".jp-Dialog").wait_for()
        # The frame of the dialog is JupyterLab's.
        check(lab, ".jp-Dialog .sbx-Form, .jp-Dialog .sbx-Confirm, .jp-Dialog .sbx-Isolation")
        close_dialog(lab)
    lab.use_theme("Light")
    server.kill(paused)


def test_the_order_of_the_keyboard_through_the_panel(lab: Lab, sandbox: str):
    expect(lab.row("workbench")).to_be_visible()
    lab.panel.get_by_label("Refresh the list").focus()
    names = []
    for _ in range(8):
        names.append(lab.page.evaluate("document.activeElement.getAttribute('aria-label')"))
        lab.page.keyboard.press("Tab")

    assert names[:3] == [
        "Refresh the list of sandboxes",
        "New sandbox",
        "Create a sandbox with options",
    ]
    assert names[4:] == ["workbench, running", "Open terminal", "Browse files", "Show metrics"]


@pytest.mark.usefixtures("notebook")
def test_the_widgets_and_the_questions_in_them(lab: Lab, sandbox: str, server: JupyterServer):
    run_first_cell(lab)
    files = lab.page.locator(".sbx-Files")
    check(lab, ".sbx-Files")
    check(lab, ".sbx-MetricsView")

    files.get_by_role("button", name="New folder").click()
    asked = files.get_by_role("dialog")
    expect(asked.get_by_role("textbox")).to_be_focused()
    check(lab, ".sbx-Files")
    lab.page.keyboard.type("made")
    lab.page.keyboard.press("Enter")
    expect(files.get_by_role("treeitem", name="made", exact=True)).to_be_visible()

    files.get_by_role("treeitem", name="seen.txt", exact=True).press("Delete")
    danger = files.get_by_role("alertdialog")
    expect(danger.get_by_role("button", name="Cancel")).to_be_focused()
    check(lab, ".sbx-Files")
    lab.page.keyboard.press("Escape")
    expect(files.get_by_role("treeitem", name="seen.txt", exact=True)).to_be_focused()
    assert server.read(sandbox, "/home/user/seen.txt") == b"from the sandbox"

    lab.page.keyboard.press("F2")
    asked.get_by_role("textbox").fill("renamed.txt")
    lab.page.keyboard.press("Enter")
    server.wait_for(sandbox, "/home/user/renamed.txt", b"from the sandbox")

    files.get_by_role("treeitem", name="renamed.txt", exact=True).click()
    editor = files.locator(".sbx-FileEditor-text")
    editor.fill("not saved")
    check(lab, ".sbx-Files")
    files.get_by_role("button", name="Close renamed.txt").click()
    expect(danger).to_contain_text("not saved")
    danger.get_by_role("button", name="Cancel").click()
    expect(editor).to_have_value("not saved")
