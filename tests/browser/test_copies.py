"""Names, snapshots and forks from the panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

pytestmark = pytest.mark.long


def toast(lab: Lab, text: str):
    return lab.page.locator(".Toastify__toast", has_text=text)


def snapshots(server: JupyterServer) -> set[str]:
    listed = server.http.get("templates").json()["templates"]
    return {item["templateID"] for item in listed if item["kind"] == "snapshot"}


def test_a_sandbox_is_renamed_from_its_row(lab: Lab, sandbox: str, server: JupyterServer):
    lab.row("workbench").press("F2")
    dialog = lab.page.locator(".jp-Dialog")
    dialog.locator("input").fill("<b>renamed</b>")
    lab.page.keyboard.press("Enter")

    expect(lab.row("<b>renamed</b>")).to_be_visible()
    assert server.sandboxes()[sandbox]["metadata"]["name"] == "<b>renamed</b>"


@pytest.mark.usefixtures("sandbox")
def test_a_name_that_turns_its_direction_is_shown_as_it_is(lab: Lab, server: JupyterServer):
    spoof = server.create("\u202egnp.exe")
    lab.execute("sbx:refresh")
    expect(lab.row("\ufffdgnp.exe")).to_be_visible()
    server.kill(spoof)


def test_a_snapshot_is_kept_made_from_and_deleted(lab: Lab, sandbox: str, server: JupyterServer):
    earlier = snapshots(server)
    server.write(sandbox, "/home/user/proof", b"kept")
    lab.choose("workbench", "Snapshot")
    lab.page.locator(".jp-Dialog input").fill("lab-snapshot")
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Take snapshot").click()
    before = set(server.sandboxes())
    toast(lab, "Snapshot lab-snapshot was taken.").get_by_role("button").get_by_text(
        "New sandbox from it"
    ).click()
    expect(toast(lab, "is running.")).to_be_visible()
    (copy,) = set(server.sandboxes()) - before
    assert server.read(copy, "/home/user/proof") == b"kept"
    server.kill(copy)

    lab.page.evaluate("void jupyterapp.commands.execute('sbx:remove-template')")
    dialog = lab.page.locator(".jp-Dialog")
    dialog.locator("select").select_option("lab-snapshot")
    dialog.get_by_role("button", name="Choose").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(toast(lab, "lab-snapshot is deleted.")).to_be_visible()
    assert snapshots(server) == earlier


def test_a_fork_appears_under_a_name_of_its_own(lab: Lab, sandbox: str, server: JupyterServer):
    server.write(sandbox, "/home/user/proof", b"forked")
    before = set(server.sandboxes())
    lab.choose("workbench", "Fork")

    expect(lab.row("workbench (copy)")).to_be_visible()
    (copy,) = set(server.sandboxes()) - before
    assert server.read(copy, "/home/user/proof") == b"forked"
    server.kill(copy)


def test_a_shorter_life_can_be_taken_back(lab: Lab, sandbox: str):
    lab.execute("sbx:set-timeout", sandbox=sandbox, timeout=7200)
    expect(lab.row("workbench")).to_contain_text("1 h 59 min left")
    lab.choose("workbench", "Keep for", "5 min")
    expect(lab.row("workbench")).to_contain_text("4:")

    toast(lab, "sooner than before").get_by_text("Undo").click()

    expect(lab.row("workbench")).to_contain_text("1 h 59 min left")


def test_work_that_takes_long_says_how_far_it_is_and_is_cancelled(lab: Lab, sandbox: str):
    operation = {"operationID": "o1", "kind": "snapshot", "phase": "copying", "cancellable": True}
    operation |= {"doneBytes": 256 << 20, "totalBytes": 1 << 30}
    held = []
    lab.page.route("**/snapshots?*", lambda route: held.append(route))
    lab.page.route("**/operations?*", lambda route: route.fulfill(json={"operations": [operation]}))
    lab.page.route("**/operations/o1?*", lambda route: route.fulfill(status=204))
    lab.page.evaluate(
        "id => void jupyterapp.commands.execute('sbx:snapshot', {sandbox: id, name: 'n'})", sandbox
    )
    row = lab.row("workbench")
    expect(row.get_by_role("progressbar")).to_have_attribute("value", str(256 << 20))
    expect(row).to_contain_text("256 MiB / 1 GiB")

    with lab.page.expect_request(lambda request: "/operations/o1?" in request.url) as asked:
        row.get_by_role("button", name="Cancel").click()
    assert asked.value.method == "DELETE"

    held[0].fulfill(status=409, json={"code": "aborted", "message": "It was cancelled."})
    expect(toast(lab, "It was cancelled.")).to_be_visible()
    expect(row.get_by_role("progressbar")).to_have_count(0)
