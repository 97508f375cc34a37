"""The tabs about sandboxes: details and storage; and several sandboxes chosen at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from sbx_jupyter.client import Sandbox

if TYPE_CHECKING:
    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer


def test_details_are_walked_by_keyboard_and_come_back_after_a_reload(
    lab: Lab, sandbox: str, server: JupyterServer
):
    server.write(sandbox, "/home/user/.bashrc", b"# <b>mine</b>\n")
    server.write(sandbox, "/home/user/result.txt", b"42\n")
    server.write(sandbox, "/home/user/data/made.txt", b"made")
    lab.choose("workbench", "Show Details")
    page = lab.page
    expect(page.get_by_role("log")).to_contain_text("Sandbox started")

    page.get_by_role("tab", name="Logs").press("End")
    expect(page.get_by_role("tab", name="Changes")).to_be_focused()
    tree = page.get_by_role("tree", name="Changed files")
    expect(tree).to_contain_text(".bashrc")
    tree.get_by_role("treeitem", name=".bashrc").click()
    lines = page.get_by_role("region", name="Changed lines")
    expect(lines.locator(".sbx-mod-added")).to_contain_text("# <b>mine</b>")
    expect(lines.locator(".sbx-mod-removed").first).to_be_visible()

    # What the engine itself writes when it starts a sandbox is no change.
    expect(tree.get_by_role("treeitem", name="hostname")).to_have_count(0)
    lab.execute("sbx:browse-files", sandbox=sandbox)
    page.locator("#sbx-files .jp-DirListing-item", has_text="data").click(button="right")
    page.locator(".lm-Menu-itemLabel", has_text="Show What Changed Here").click()
    expect(tree.get_by_role("treeitem", name="made.txt")).to_be_visible()
    expect(tree.get_by_role("treeitem", name=".bashrc")).to_have_count(0)
    page.get_by_label("List the changes everywhere").click()

    tree.get_by_role("treeitem", name="result.txt").click()
    page.get_by_label("Take this file home").click()
    expect(page.get_by_text("copied to the notebook files")).to_be_visible()
    assert (server.root / "result.txt").read_bytes() == b"42\n"

    lab.wait_saved(f"sbx-details:{sandbox}")
    lab.reload()

    expect(page.get_by_role("tree", name="Changed files")).to_contain_text(".bashrc")


def test_several_are_chosen_and_killed_after_one_question(lab: Lab, server: JupyterServer):
    made = {name: server.create(name) for name in ("one", "two", "three")}
    lab.execute("sbx:refresh")
    lab.row("one").press("Space")
    lab.row("three").click(modifiers=["ControlOrMeta"])
    lab.panel.get_by_label("Kill them").click()

    dialog = lab.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("Kill 2 sandboxes?")
    dialog.get_by_role("button", name="Kill sandboxes").click()

    expect(lab.row("two")).to_be_visible()
    for name in ("one", "three"):
        expect(lab.row(name)).to_have_count(0)
        assert made[name] not in server.sandboxes()
    server.kill(made["two"])


def test_a_secret_is_stored_and_never_shown(lab: Lab, server: JupyterServer):
    lab.execute("sbx:open-storage", store="secrets")
    form = lab.page.get_by_role("form", name="New secret")
    form.get_by_label("name").fill("API_KEY")
    form.get_by_label("value").fill("hush-hush")
    form.get_by_role("button", name="Store").click()

    row = lab.page.get_by_role("row").filter(has_text="API_KEY")
    expect(row).to_be_visible()
    expect(form.get_by_label("value")).to_have_value("")
    assert "hush-hush" not in lab.page.content()
    row.get_by_label("Delete API_KEY").click()
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


CUT = """() => {
  const view = document.querySelector('.sbx-Storage').getBoundingClientRect();
  const isIn = ({ left, right }) => left >= view.left && right <= view.right;
  return [...document.querySelectorAll('.sbx-Storage button')]
    .filter(button => !isIn(button.getBoundingClientRect()))
    .map(button => button.ariaLabel ?? button.textContent);
}"""


def test_a_narrow_storage_cuts_no_button_off(lab: Lab, sandbox: str, server: JupyterServer):
    kept = server.http.post(f"sandboxes/{sandbox}/snapshots", json={"name": "kept"})
    lab.execute("sbx:open-storage", store="snapshots")
    lab.page.set_viewport_size({"width": 560, "height": 800})

    expect(lab.page.get_by_label("Delete kept")).to_be_visible()
    lab.wait_until("() => document.querySelector('.sbx-Storage').clientWidth < 300")
    assert lab.page.evaluate(CUT) == []

    lab.page.get_by_role("tab", name="Templates").click()
    stock = lab.page.get_by_role("row").filter(has_text="built in").first
    expect(stock).to_be_visible()
    expect(stock).not_to_contain_text("0 B")
    server.http.delete(f"templates/{kept.raise_for_status().json()['snapshotID']}")


def test_open_views_leave_a_paused_sandbox_asleep(lab: Lab, server: JupyterServer):
    box = Sandbox.create(timeout=600, auto_resume=True, config=server.connection())
    lab.execute("sbx:refresh")
    for command in ("sbx:open-terminal", "sbx:browse-files", "sbx:open-metrics"):
        lab.execute(command, sandbox=box.sandbox_id)
    expect(lab.page.locator(".sbx-MetricsChart-value").first).to_contain_text("%")
    lab.page.locator("#sbx-files .jp-DirListing-content").wait_for()
    connected = "[...jupyterapp.shell.widgets('main')].some(widget => widget.connection"
    lab.wait_until(f"() => {connected}?.connectionStatus === 'connected')")
    lab.wait_answered(box.sandbox_id)  # what was asked before the pause wakes the sandbox

    lab.execute("sbx:pause", sandbox=box.sandbox_id)
    expect(lab.page.locator(".sbx-MetricsView-message")).to_contain_text("is paused")
    # Longer than the views wait between two readings, attempts or listings.
    lab.page.wait_for_timeout(15_000)

    assert server.sandboxes()[box.sandbox_id]["state"] == "paused"
    box.kill()
