"""The metrics panel draws what the sandbox uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.lab import Lab

DRAWN = """() => [...document.querySelectorAll('.sbx-MetricsChart canvas')].every(canvas => {
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.some((value, index) => index % 4 === 3 && value > 0);
})"""


def test_all_three_charts_draw_and_say_their_value(lab: Lab, sandbox: str):
    lab.execute("sbx:open-metrics", sandbox=sandbox)
    charts = lab.page.locator(".sbx-MetricsChart-measure")
    expect(charts).to_have_count(3)
    for title, unit in (("CPU", "%"), ("Memory", "iB of"), ("Disk", "iB of")):
        chart = charts.filter(has_text=title)
        expect(chart.locator(".sbx-MetricsChart-value")).to_contain_text(unit)
    lab.wait_until(DRAWN)
    assert lab.page.locator(".sbx-MetricsView-message").is_hidden()


def test_a_sandbox_that_ended_is_told_in_the_panel(lab: Lab, sandbox: str):
    lab.execute("sbx:open-metrics", sandbox=sandbox)
    expect(lab.page.locator(".sbx-MetricsChart-value").first).to_contain_text("%")

    lab.server.kill(sandbox)

    expect(lab.page.locator(".sbx-MetricsView-message")).to_contain_text(sandbox)


def test_the_charts_fill_the_tab(lab: Lab, sandbox: str):
    lab.execute("sbx:open-metrics", sandbox=sandbox)
    tab = lab.page.locator(".sbx-MetricsWidget:visible")
    lab.wait_until(DRAWN)
    for width, height in ((1600, 700), (700, 1000)):
        lab.page.set_viewport_size({"width": width, "height": height})
        lab.wait_until(
            "() => { const tab = document.querySelector('.sbx-MetricsWidget');"
            " const plots = [...tab.querySelectorAll('.uplot')]"
            ".map(plot => plot.getBoundingClientRect());"
            " const { bottom } = tab.getBoundingClientRect();"
            " return Math.max(...plots.map(p => p.bottom)) > bottom - 60"
            " && plots.every(p => p.height > 100) && tab.scrollHeight <= tab.clientHeight; }"
        )
    tab.wait_for()
