"""The sandboxes panel: making sandboxes, seeing them, ending them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.sandboxed import SandboxedNotebook
from tests.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Route

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer


@pytest.mark.usefixtures("no_sandboxes")
def test_the_empty_panel_says_what_to_do_and_does_it(lab: Lab, server: JupyterServer):
    expect(lab.panel).to_contain_text("No sandboxes yet")

    lab.panel.get_by_role("button", name="Create sandbox").click()

    expect(lab.rows).to_have_count(1)
    expect(lab.page.get_by_text("is running.")).to_be_visible()
    assert len(server.sandboxes()) == 1


@pytest.mark.usefixtures("no_sandboxes")
def test_a_sandbox_is_made_with_a_name_and_a_timeout(lab: Lab, server: JupyterServer):
    lab.panel.get_by_role("button", name="Create a sandbox with options").click()
    dialog = lab.page.locator(".jp-Dialog")
    dialog.get_by_label("Name", exact=True).fill("from the form")
    dialog.get_by_label("Lives for").select_option("900")
    dialog.get_by_role("button", name="Create").click()

    expect(lab.row("from the form")).to_be_visible()
    (made,) = server.sandboxes().values()
    assert made["metadata"]["name"] == "from the form"
    expect(lab.row("from the form")).to_contain_text("14:")


@pytest.mark.usefixtures("no_sandboxes")
def test_an_unknown_template_is_refused_in_the_words_of_the_engine(lab: Lab):
    lab.execute("sbx:create", template="no-such-template")

    toast = lab.page.locator(".Toastify__toast", has_text="could not be created")
    expect(toast).to_contain_text("no-such-template")
    expect(lab.rows).to_have_count(0)


def test_killing_asks_first_and_keeps_the_sandbox_on_cancel(
    lab: Lab, sandbox: str, server: JupyterServer
):
    row = lab.row("workbench")
    row.press("Delete")
    dialog = lab.page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("workbench")
    dialog.get_by_role("button", name="Cancel").click()
    assert sandbox in server.sandboxes()

    row.press("Delete")
    dialog.get_by_role("button", name="Kill sandbox").click()

    expect(row).to_have_count(0)
    assert sandbox not in server.sandboxes()


def test_the_menu_pauses_and_resumes(lab: Lab, sandbox: str, server: JupyterServer):
    lab.choose("workbench", "Pause")
    expect(lab.row("workbench")).to_contain_text("paused")
    assert server.sandboxes()[sandbox]["state"] == "paused"

    lab.choose("workbench", "Resume")
    expect(lab.row("workbench")).to_contain_text("left")
    assert server.sandboxes()[sandbox]["state"] == "running"


def test_the_menu_extends_the_time(lab: Lab, sandbox: str):
    expect(lab.row("workbench")).to_contain_text("9:")

    lab.choose("workbench", "Keep for", "4 h")

    expect(lab.row("workbench")).to_contain_text("3 h 59 min left")


def test_the_time_that_is_left_counts_down(lab: Lab, sandbox: str):
    left = lab.row("workbench").locator(".sbx-Row-left")
    expect(left).not_to_be_empty()
    held: list[Route] = []  # the server answers nothing, so that the page counts by itself
    lab.page.route("**/sbx/api/**", lambda route: held.append(route))
    lab.wait_until(
        "before => document.querySelector('.sbx-Row-left').textContent !== before",
        left.inner_text(),
    )


def test_the_badge_says_what_holds_each_limit(lab: Lab, server: JupyterServer):
    isolation = until(lambda: server.http.get("info").json()["isolation"])
    badge = lab.panel.locator(".sbx-Badge")
    expect(badge).to_contain_text(isolation["tier"])

    badge.click()

    details = lab.page.get_by_role("dialog", name="Isolation")
    for limit, holder in isolation["limits"].items():
        row = details.locator(f'tr[data-limit="{limit}"]')
        expect(row).to_contain_text(isolation["limit_words"][limit])
        expect(row).to_contain_text("" if holder == "none" else holder)
    for missing in isolation["missing"]:
        expect(details).to_contain_text(missing["remedy"])
    expect(details.get_by_role("button", name="Close")).to_be_focused()
    lab.page.keyboard.press("Escape")
    expect(details).to_have_count(0)
    expect(badge).to_be_focused()


def test_arrow_keys_move_between_rows(lab: Lab, server: JupyterServer, sandbox: str):
    other = server.create("second bench")
    lab.execute("sbx:refresh")
    lab.row("second bench").press("ArrowDown")
    expect(lab.row("workbench")).to_be_focused()
    lab.page.keyboard.press("Shift+F10")
    lab.page.locator(".lm-Menu-itemLabel", has_text="Pause").wait_for()
    lab.page.keyboard.press("Escape")
    expect(lab.row("workbench")).to_be_focused()
    lab.page.keyboard.press("Home")
    expect(lab.row("second bench")).to_be_focused()
    server.kill(other)


def test_hostile_names_are_shown_as_text(lab: Lab, server: JupyterServer):
    name = "<img src=x onerror=window.hurt=1>" + "long " * 100
    sandbox_id = server.create(name)
    lab.execute("sbx:refresh")

    expect(lab.rows.filter(has_text="<img src=x")).to_have_count(1)
    lab.execute("sbx:open-metrics", sandbox=sandbox_id)
    expect(lab.page.locator(".sbx-MetricsWidget .sbx-View-title")).to_contain_text("<img src=x")
    assert lab.page.evaluate("window.hurt") is None
    width = lab.panel.evaluate("node => [node.scrollWidth, node.clientWidth]")
    assert width[0] <= width[1]
    server.kill(sandbox_id)


def test_an_unreachable_engine_is_told_and_retried(lab: Lab, sandbox: str):
    expect(lab.row("workbench")).to_be_visible()
    sentence = "The engine did not start within 30 s."
    answer = json.dumps({"code": "unavailable", "message": sentence})
    lab.page.route("**/sbx/api/sandboxes?*", lambda route: route.fulfill(status=503, body=answer))
    lab.panel.get_by_role("button", name="Refresh").click()
    expect(lab.panel.get_by_role("alert")).to_contain_text(sentence)
    expect(lab.row("workbench")).to_be_visible()

    lab.page.unroute("**/sbx/api/sandboxes?*")
    lab.panel.get_by_role("button", name="Retry").click()

    expect(lab.panel.get_by_role("alert")).to_have_count(0)


def test_the_panel_asks_nothing_while_it_is_hidden(lab: Lab, sandbox: str):
    expect(lab.row("workbench")).to_be_visible()
    lab.page.evaluate("jupyterapp.shell.collapseLeft()")
    lab.wait_answered("/sbx/api/")
    lab.requests.clear()

    lab.page.wait_for_timeout(6000)  # longer than from one question to the next

    assert [url for url in lab.requests if "/sbx/api/" in url] == []
    with lab.page.expect_request("**/sbx/api/sandboxes?*"):
        lab.show_panel()


def test_running_sessions_list_the_sandbox(lab: Lab, sandbox: str):
    expect(lab.row("workbench")).to_be_visible()
    lab.page.evaluate("jupyterapp.shell.activateById('jp-running-sessions')")
    expect(lab.page.locator("#jp-running-sessions")).to_contain_text("workbench")


def test_many_sandboxes_can_be_searched_and_sorted(lab: Lab, server: JupyterServer):
    names = [f"many-{number}" for number in range(6)]
    made = [server.create(name) for name in names]
    try:
        expect(lab.row("many-5")).to_be_visible()
        lab.panel.get_by_label("Filter the sandboxes").fill("many-4")
        expect(lab.rows).to_have_count(1)
        lab.panel.get_by_label("Filter the sandboxes").fill("no such thing")
        expect(lab.panel.get_by_text("No sandbox matches")).to_be_visible()
        lab.panel.get_by_label("Filter the sandboxes").fill("many")
        lab.panel.get_by_label("Order of the sandboxes").select_option("name")
        expect(lab.rows.locator(".sbx-Row-name")).to_have_text(names)
    finally:
        for sandbox in made:
            server.kill(sandbox)


@pytest.mark.usefixtures("no_sandboxes")
def test_a_new_sandbox_has_a_readable_name(lab: Lab, server: JupyterServer):
    lab.execute("sbx:create")
    row = lab.rows.filter(has_text="base-")
    expect(row.locator(".sbx-Row-name")).to_have_text(re.compile(r"^base-\d+$"))


def test_the_row_of_the_notebook_in_front_says_so_and_cuts_nothing_off(
    lab: Lab, server: JupyterServer
):
    notebook = SandboxedNotebook(lab, server, "named.ipynb", "1")
    row = lab.rows.filter(has_text="This notebook")
    expect(row.locator(".sbx-Row-left")).to_be_visible()
    expect(row.locator(".sbx-Row-chart")).to_be_visible()
    assert lab.panel.evaluate("panel => panel.clientWidth") <= 250

    parts = row.locator(".sbx-Row-facts, .sbx-Chip")
    cut = "parts => parts.filter(part => part.scrollWidth > part.clientWidth).map(p => p.className)"
    assert parts.evaluate_all(cut) == []
    notebook.close()
