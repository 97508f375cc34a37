"""What axe-core finds in each state of the views, in every theme: nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.notebooks import run_first_cell
from tests.browser.test_accessibility import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Route

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer


@pytest.fixture(params=["Light", "Dark", "Dark High Contrast"])
def theme(request: pytest.FixtureRequest, lab: Lab) -> Iterator[None]:
    lab.use_theme(request.param)
    yield
    lab.use_theme("Light")


@pytest.mark.usefixtures("theme", "no_sandboxes")
def test_the_empty_panel(lab: Lab):
    lab.execute("sbx:refresh")
    expect(lab.panel).to_contain_text("No sandboxes yet")
    check(lab, "#sbx-panel")


@pytest.mark.usefixtures("theme")
@pytest.mark.parametrize("code", ["unavailable", "unauthenticated", "permission_denied"])
def test_the_panel_without_an_answer(lab: Lab, code: str):
    answer = json.dumps({"code": code, "message": "The engine says no."})
    lab.page.route("**/sbx/api/sandboxes?*", lambda route: route.fulfill(status=503, body=answer))
    lab.execute("sbx:refresh")
    expect(lab.panel.get_by_role("alert")).to_be_visible()
    check(lab, "#sbx-panel")


@pytest.mark.usefixtures("theme", "no_sandboxes")
def test_a_list_with_chosen_busy_and_ended_sandboxes(lab: Lab, server: JupyterServer):
    made = [server.create(f"crowd-{number}") for number in range(7)]
    server.http.post(f"sandboxes/{made[0]}/pause", json={}).raise_for_status()
    lab.execute("sbx:refresh")
    expect(lab.row("crowd-0")).to_contain_text("paused")
    lab.row("crowd-2").click(modifiers=["ControlOrMeta"])
    lab.panel.get_by_label("Groups of the sandboxes").select_option("state")
    server.kill(made[1])
    expect(lab.panel).to_contain_text("ended elsewhere")
    # The engine answers when the check is over, so that the row is busy meanwhile.
    held: list[Route] = []
    lab.page.route("**/pause", lambda route: held.append(route))
    lab.page.evaluate("id => void jupyterapp.commands.execute('sbx:pause', {sandbox: id})", made[3])
    expect(lab.row("crowd-3")).to_have_attribute("aria-busy", "true")
    check(lab, "#sbx-panel")

    for route in held:
        route.continue_()
    expect(lab.row("crowd-3")).to_contain_text("paused")
    for sandbox_id in made:
        server.kill(sandbox_id)


@pytest.mark.usefixtures("theme")
def test_the_details_and_the_end_of_their_sandbox(lab: Lab, sandbox: str, server: JupyterServer):
    server.write(sandbox, "/home/user/.bashrc", b"# mine\n")
    lab.execute("sbx:open-terminal", sandbox=sandbox)
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget?.connection?.connectionStatus === 'connected'"
    )
    lab.type_in_terminal("python3 -m http.server 8000 >/dev/null 2>&1")
    shown = {
        "logs": "Sandbox started",
        "processes": "http.server",
        "ports": "8000",
        "changes": ".bashrc",
    }
    for section, text in shown.items():
        lab.execute("sbx:open-details", sandbox=sandbox, section=section)
        expect(lab.page.locator(".sbx-Details-body")).to_contain_text(text)
        check(lab, ".sbx-Details")
    lab.page.get_by_role("treeitem", name=".bashrc").click()
    expect(lab.page.get_by_role("region", name="Changed lines")).to_be_visible()
    check(lab, ".sbx-Details")

    server.kill(sandbox)
    expect(lab.page.locator(".sbx-Details-head .sbx-View-facts")).to_contain_text("has ended")
    check(lab, ".sbx-Details")


@pytest.mark.usefixtures("theme")
@pytest.mark.parametrize("store", ["snapshots", "templates", "volumes", "secrets"])
def test_the_storage(lab: Lab, store: str):
    lab.execute("sbx:open-storage", store=store)
    expect(lab.page.locator(".sbx-Storage .sbx-Loading")).to_have_count(0)
    if store == "templates":
        lab.page.get_by_role("button", name="Build from a Dockerfile").click()
    check(lab, ".sbx-Storage")


@pytest.mark.usefixtures("theme")
def test_the_metrics(lab: Lab, sandbox: str):
    lab.execute("sbx:open-metrics", sandbox=sandbox)
    expect(lab.page.locator(".sbx-MetricsWidget .sbx-MetricsChart canvas").first).to_be_visible()
    check(lab, ".sbx-MetricsWidget")


@pytest.mark.usefixtures("theme")
def test_a_large_folder_a_terminal_and_the_end_of_their_sandbox(
    lab: Lab, sandbox: str, server: JupyterServer
):
    lab.execute("sbx:open-terminal", sandbox=sandbox)
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget?.connection?.connectionStatus === 'connected'"
    )
    lab.type_in_terminal("mkdir big && cd big && seq 1 2500 | xargs touch && touch ../made")
    server.wait_for(sandbox, "/home/user/made", b"", 60)
    lab.execute("sbx:browse-files", sandbox=sandbox, path="/home/user/big")
    expect(lab.page.locator(".sbx-FileBrowser-cut")).to_contain_text("1,000 of 2,500")
    # The buttons of the toolbars are JupyterLab's.
    check(lab, ".sbx-FileBrowser-cut")

    server.kill(sandbox)
    expect(lab.page.locator(".sbx-FileBrowser-ended")).to_be_visible()
    expect(lab.page.locator(".sbx-TerminalWidget-banner")).to_be_visible()
    check(lab, ".sbx-FileBrowser-ended")
    check(lab, ".sbx-TerminalWidget-banner")


@pytest.mark.usefixtures("theme", "notebook")
def test_the_widgets_and_the_end_of_their_sandbox(lab: Lab, sandbox: str, server: JupyterServer):
    run_first_cell(lab)
    check(lab, ".sbx-Files")
    check(lab, ".sbx-MetricsView")

    server.kill(sandbox)
    band = lab.page.locator(".sbx-StateBand").first
    expect(band).to_contain_text("has ended")
    check(lab, ".sbx-StateBand")
