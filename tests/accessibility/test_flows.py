"""Create, open, run and kill by keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer


TAB_STOPS = 40
"""What is tried at most on the way to a control."""


def run_from_palette(lab: Lab, label: str) -> None:
    """Run a command as people do who have no pointer."""
    keyboard = lab.page.keyboard
    keyboard.press("Control+Shift+C")
    search = lab.page.locator(".lm-CommandPalette-input:visible")
    expect(search).to_be_focused()
    search.fill(label)
    expect(lab.page.locator(".lm-CommandPalette-item.lm-mod-active:visible")).to_contain_text(label)
    keyboard.press("Enter")


def tab_to(lab: Lab, wanted: Locator) -> None:
    """Press Tab until a control has the focus."""
    for _ in range(TAB_STOPS):
        if wanted.count() == 1 and wanted.evaluate("node => node === document.activeElement"):
            return
        lab.page.keyboard.press("Tab")
    raise AssertionError(f"{TAB_STOPS} times Tab do not reach {wanted}")


def run_in_terminal(lab: Lab, server: JupyterServer, sandbox_id: str) -> None:
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget?.connection?.connectionStatus === 'connected'",
    )
    expect(lab.page.locator(".xterm-helper-textarea:visible")).to_be_focused()
    lab.page.keyboard.type("echo typed > typed.txt")
    lab.page.keyboard.press("Enter")
    server.wait_for(sandbox_id, "/home/user/typed.txt", b"typed\n")


def confirm_kill(lab: Lab) -> None:
    """Answer the question, whose first button is the harmless one."""
    dialog = lab.page.locator(".jp-Dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    lab.page.keyboard.press("Tab")
    expect(dialog.get_by_role("button", name="Kill")).to_be_focused()
    lab.page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)


@pytest.mark.usefixtures("no_sandboxes")
def test_from_the_command_palette(lab: Lab, server: JupyterServer):
    run_from_palette(lab, "New Sandbox")
    expect(lab.rows).to_have_count(1)
    [sandbox_id] = server.sandboxes()

    run_from_palette(lab, "Open Sandbox Terminal")
    run_in_terminal(lab, server, sandbox_id)

    run_from_palette(lab, "Browse Sandbox Files")
    expect(lab.page.locator("#sbx-files .jp-DirListing-item", has_text="typed.txt")).to_be_visible()

    run_from_palette(lab, "Kill Sandbox")
    confirm_kill(lab)
    lab.show_panel()
    expect(lab.rows).to_have_count(0)
    assert sandbox_id not in server.sandboxes()


@pytest.mark.usefixtures("no_sandboxes")
def test_in_the_panel(lab: Lab, server: JupyterServer):
    keyboard = lab.page.keyboard
    lab.panel.get_by_label("Refresh the list").focus()
    tab_to(lab, lab.panel.get_by_label("Create a sandbox with options"))
    keyboard.press("Enter")
    dialog = lab.page.locator(".jp-Dialog")
    expect(dialog).to_be_visible()
    tab_to(lab, dialog.get_by_label("Name", exact=True))
    keyboard.press("ControlOrMeta+A")
    keyboard.type("by keys")
    keyboard.press("Enter")
    expect(lab.row("by keys")).to_be_visible()
    [sandbox_id] = server.sandboxes()

    lab.panel.get_by_label("Refresh the list").focus()
    tab_to(lab, lab.row("by keys"))
    keyboard.press("Enter")
    run_in_terminal(lab, server, sandbox_id)

    lab.row("by keys").focus()
    keyboard.press("Delete")
    confirm_kill(lab)
    expect(lab.rows).to_have_count(0)
    assert sandbox_id not in server.sandboxes()


def test_a_dialog_and_a_menu_give_the_focus_back(lab: Lab, sandbox: str):
    row = lab.row("workbench")
    row.focus()
    lab.page.keyboard.press("Delete")
    expect(lab.page.locator(".jp-Dialog")).to_be_visible()
    lab.page.keyboard.press("Escape")
    expect(row).to_be_focused()

    lab.page.keyboard.press("Shift+F10")
    expect(lab.page.locator(".lm-Menu")).to_be_visible()
    lab.page.keyboard.press("Escape")
    expect(row).to_be_focused()


def test_the_sections_of_details_and_storage(lab: Lab, sandbox: str, server: JupyterServer):
    keyboard = lab.page.keyboard
    server.write(sandbox, "/home/user/made.txt", b"1")
    run_from_palette(lab, "Show What a Sandbox Changed")
    tree = lab.page.get_by_role("tree", name="Changed files")
    expect(tree).to_be_visible()
    tab_to(lab, tree)
    keyboard.press("End")
    keyboard.press("Enter")
    expect(lab.page.get_by_role("region", name="Changed lines")).to_be_visible()

    run_from_palette(lab, "Show Snapshots")
    tabs = lab.page.get_by_role("tablist", name="Kinds")
    tab_to(lab, tabs.get_by_role("tab", selected=True))
    for name in ("Templates", "Volumes", "Secrets", "Snapshots"):
        keyboard.press("ArrowRight")
        expect(tabs.get_by_role("tab", name=name)).to_be_focused()
        expect(tabs.get_by_role("tab", selected=True)).to_have_text(name)
