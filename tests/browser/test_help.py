"""The documentation in a tab of JupyterLab."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.lab import Lab

pytestmark = pytest.mark.long


def heading(lab: Lab, text: str):
    return lab.page.locator(".sbx-Help").get_by_role("heading", name=text, level=1)


def test_the_menu_opens_it_and_links_lead_on_and_back(lab: Lab):
    lab.page.get_by_role("menuitem", name="Help", exact=True).click()
    lab.page.locator(".lm-Menu-itemLabel", has_text="Sandboxes: Help").click()
    expect(heading(lab, "sbx-jupyter")).to_be_visible()

    lab.page.get_by_role("combobox", name="Page").select_option("tutorial")
    expect(heading(lab, "First steps")).to_be_visible()
    lab.wait_until("() => document.querySelector('.sbx-Help img').naturalWidth > 100")

    lab.page.locator('.sbx-Help a[data-page="kernels"]').first.click()
    expect(heading(lab, "Kernels in sandboxes")).to_be_visible()
    lab.page.locator(".sbx-Help").get_by_role("button", name="Back").click()
    expect(heading(lab, "First steps")).to_be_visible()
    expect(lab.page.get_by_role("combobox", name="Page")).to_have_value("tutorial")


def test_a_link_to_a_heading_shows_it(lab: Lab):
    lab.execute("sbx:open-help", page="tiers")
    expect(heading(lab, "What works where")).to_be_visible()

    lab.page.locator('.sbx-Help a[data-heading="where-nothing-isolates"]').first.click()

    target = lab.page.locator(".sbx-Help").get_by_role("heading", name="Where nothing isolates")
    expect(target).to_be_in_viewport()


def test_a_failure_opens_its_page(lab: Lab):
    answer = json.dumps({"code": "unavailable", "message": "it did not start"})
    lab.page.route("**/sbx/api/events?*", lambda route: route.fulfill(status=503, body=answer))
    lab.page.route("**/sbx/api/sandboxes?*", lambda route: route.fulfill(status=503, body=answer))
    lab.page.goto(f"{lab.address}?reset")
    lab.page.wait_for_selector("#sbx-panel", state="attached")
    lab.page.evaluate("jupyterapp.restored.then(() => null)")
    lab.show_panel()

    lab.panel.get_by_role("button", name="Read more").click()

    expect(heading(lab, "Run it in a container or by systemd")).to_be_visible()


def test_an_error_has_a_button_for_its_page(lab: Lab, sandbox: str):
    message = "the disk is full: make room (jupyter sbx help storage)"
    answer = json.dumps({"code": "resource_exhausted", "message": message})
    lab.page.route("**/pause*", lambda route: route.fulfill(status=507, body=answer))
    lab.execute("sbx:pause", sandbox=sandbox)

    toast = lab.page.locator(".Toastify__toast", has_text="make room")
    expect(toast).not_to_contain_text("jupyter sbx help")
    toast.get_by_role("button", name="Read more").click()

    expect(heading(lab, "Disk")).to_be_visible()
