"""Pictures of every view in both themes, in ``shots``; only `make screenshots` takes them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.notebooks import run_first_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Route

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer


NAMES = [
    "data-cleaning",
    None,
    "A very long name that somebody pasted from a ticket and never shortened at all",
    "<img src=x onerror=alert(1)>",
    "nightly build",
]


@pytest.fixture(params=["Light", "Dark"])
def theme(request: pytest.FixtureRequest, lab: Lab) -> Iterator[str]:
    lab.use_theme(request.param)
    yield request.param.lower()
    lab.use_theme("Light")


def shoot(lab: Lab, shots: Path, name: str) -> None:
    # Toasts and hover effects of the step before have left by then.
    lab.page.wait_for_timeout(400)
    path = shots / f"{name}.png"
    lab.page.screenshot(path=path)
    assert path.stat().st_size > 10_000


@pytest.mark.usefixtures("no_sandboxes")
def test_screenshot_of_the_empty_panel(lab: Lab, theme: str, shots: Path):
    lab.execute("sbx:refresh")
    expect(lab.panel).to_contain_text("No sandboxes yet")
    shoot(lab, shots, f"empty-{theme}")


def test_screenshot_of_a_failure(lab: Lab, theme: str, shots: Path):
    answer = json.dumps(
        {"code": "unavailable", "message": "The engine did not start within 30 s; see its log."}
    )
    lab.page.route("**/sbx/api/events?*", lambda route: route.fulfill(status=503, body=answer))
    lab.page.route("**/sbx/api/sandboxes?*", lambda route: route.fulfill(status=503, body=answer))
    lab.page.goto(f"{lab.address}?reset")
    lab.page.wait_for_selector("#sbx-panel", state="attached")
    lab.page.evaluate("jupyterapp.restored.then(() => null)")
    lab.show_panel()
    expect(lab.panel.get_by_role("alert")).to_be_visible()
    shoot(lab, shots, f"failure-{theme}")


@pytest.mark.usefixtures("no_sandboxes")
def test_screenshot_of_many_sandboxes(lab: Lab, server: JupyterServer, theme: str, shots: Path):
    made = [
        server.create(NAMES[number % len(NAMES)], timeout=45 + number**3) for number in range(30)
    ]
    server.http.post(f"sandboxes/{made[-2]}/pause", json={}).raise_for_status()
    lab.execute("sbx:refresh")
    expect(lab.rows).to_have_count(30)
    lab.rows.nth(2).hover()
    shoot(lab, shots, f"crowded-{theme}")
    for sandbox_id in made:
        server.kill(sandbox_id)


def test_screenshot_of_the_views(
    lab: Lab, sandbox: str, server: JupyterServer, theme: str, shots: Path
):
    server.write(sandbox, "/home/user/analysis.py", b"import math\n\nprint(math.tau)\n")
    server.write(sandbox, "/home/user/<b>bold<b>.txt", b"")
    row = lab.row("workbench")
    row.hover()
    row.get_by_label("Open terminal").click()
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget?.connection?.connectionStatus === 'connected'"
    )
    lab.page.wait_for_timeout(500)
    lab.type_in_terminal("ls -la --color / && uname -a")
    lab.page.wait_for_timeout(1500)
    shoot(lab, shots, f"terminal-{theme}")
    lab.execute("sbx:browse-files", sandbox=sandbox)
    lab.page.locator("#sbx-files .jp-DirListing-item", has_text="analysis.py").dblclick()
    lab.page.locator(".jp-FileEditor .cm-content").wait_for()
    shoot(lab, shots, f"files-{theme}")
    lab.execute("sbx:open-metrics", sandbox=sandbox)
    lab.page.wait_for_timeout(8000)
    shoot(lab, shots, f"metrics-{theme}")


def test_screenshot_of_menu_and_dialogs(lab: Lab, sandbox: str, theme: str, shots: Path):
    row = lab.row("workbench")
    row.hover()
    row.get_by_label("More actions").click()
    lab.page.locator(".lm-Menu-itemLabel", has_text="Keep for").hover()
    lab.page.locator(".lm-Menu-itemLabel", has_text="4 h").wait_for()
    shoot(lab, shots, f"menu-{theme}")
    lab.page.keyboard.press("Escape")
    lab.page.keyboard.press("Escape")
    for name, command in (
        ("kill", "sbx:kill"),
        ("create", "sbx:create-with-options"),
        ("isolation", "sbx:show-isolation"),
    ):
        # The command ends with its dialog, so it is not waited for.
        script = "([command, args]) => void jupyterapp.commands.execute(command, args)"
        lab.page.evaluate(script, [command, {"sandbox": sandbox}])
        lab.page.locator(".jp-Dialog").wait_for()
        shoot(lab, shots, f"{name}-{theme}")
        lab.page.keyboard.press("Escape")
        lab.page.locator(".jp-Dialog").wait_for(state="detached")


@pytest.mark.usefixtures("notebook")
def test_screenshot_of_the_widgets(
    lab: Lab,
    sandbox: str,
    theme: str,
    shots: Path,
):
    lab.page.evaluate("jupyterapp.shell.collapseLeft()")
    run_first_cell(lab)
    lab.page.get_by_role("treeitem", name="seen.txt", exact=True).click()
    lab.page.locator(".sbx-FileEditor").wait_for()
    lab.page.wait_for_timeout(6000)
    shoot(lab, shots, f"widgets-top-{theme}")
    lab.page.locator(".sbx-MetricsChart").scroll_into_view_if_needed()
    shoot(lab, shots, f"widgets-bottom-{theme}")


WIDTHS = {"wide": 1300, "narrow": 560}


@pytest.mark.usefixtures("no_sandboxes")
def test_screenshot_of_the_panel_with_choices_and_ended(
    lab: Lab, server: JupyterServer, theme: str, shots: Path
):
    made = [server.create(f"experiment-{number}") for number in range(7)]
    lab.execute("sbx:refresh")
    expect(lab.rows).to_have_count(7)
    server.kill(made.pop())
    expect(lab.panel).to_contain_text("ended elsewhere")
    # The charts come with the second answer of the readings, and move no row any more then.
    expect(lab.rows.locator(".sbx-Row-chart")).to_have_count(6)
    for name in ("experiment-1", "experiment-3"):
        lab.row(name).click(modifiers=["ControlOrMeta"])
    expect(lab.panel).to_contain_text("2 chosen")
    shoot(lab, shots, f"chosen-{theme}")
    lab.execute("sbx:compare-metrics", sandboxes=made[:4])
    lab.page.locator(".sbx-MetricsChart-legend").wait_for()
    value = lab.page.locator(".sbx-MetricsChart-value").first
    expect(value).to_have_text(re.compile(r"(experiment-\d [\d.]+ %(, )?){4}"))
    lab.page.wait_for_timeout(6000)
    shoot(lab, shots, f"compared-{theme}")
    for sandbox_id in made:
        server.kill(sandbox_id)


def test_screenshot_of_the_details(
    lab: Lab, sandbox: str, server: JupyterServer, theme: str, shots: Path
):
    server.write(sandbox, "/home/user/analysis.py", b"import math\n\nprint(math.tau)\n")
    server.write(sandbox, "/home/user/data/results/table.csv", b"a,b\n1,2\n")
    server.write(sandbox, "/home/user/.bashrc", b"alias ll='ls -l'\n# mine\n")
    lab.execute("sbx:open-terminal", sandbox=sandbox)
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget?.connection?.connectionStatus === 'connected'"
    )
    lab.page.wait_for_timeout(500)
    lab.type_in_terminal("python3 -m http.server 8000 >/dev/null & sleep 1000")
    for section in ("logs", "processes", "ports", "changes"):
        lab.execute("sbx:open-details", sandbox=sandbox, section=section)
        lab.page.wait_for_timeout(2500)
        if section == "changes":
            lab.page.get_by_role("treeitem", name=".bashrc").click()
            lab.page.wait_for_timeout(1500)
        for size, width in WIDTHS.items():
            lab.page.set_viewport_size({"width": width, "height": 800})
            shoot(lab, shots, f"{section}-{size}-{theme}")
        lab.page.set_viewport_size({"width": 1300, "height": 800})


def test_screenshot_of_the_storage(
    lab: Lab, sandbox: str, server: JupyterServer, theme: str, shots: Path
):
    name = f"kept-{theme}"
    server.http.post(f"sandboxes/{sandbox}/snapshots", json={"name": name}).raise_for_status()
    server.http.post("volumes", json={"name": f"shared-{theme}"}).raise_for_status()
    for store in ("snapshots", "templates", "volumes", "secrets"):
        lab.execute("sbx:open-storage", store=store)
        lab.page.wait_for_timeout(2500)
        if store == "templates":
            lab.page.get_by_role("button", name="Build from a Dockerfile").click()
            lab.page.get_by_role("textbox", name="Name").fill(f"built-{theme}")
            lab.page.get_by_role("button", name="Build", exact=True).click()
            lab.page.wait_for_timeout(6000)
        for size, width in WIDTHS.items():
            lab.page.set_viewport_size({"width": width, "height": 800})
            shoot(lab, shots, f"{store}-{size}-{theme}")
        lab.page.set_viewport_size({"width": 1300, "height": 800})


def answer_instead(lab: Lab, route: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Let the page ask instead of being told, and change what a route of the server answers."""
    lab.page.route("**/sbx/api/events?*", lambda route: route.fulfill(status=503, body="{}"))

    def changed(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        change(body)
        route.fulfill(response=response, json=body)

    lab.page.route(f"**/sbx/api/{route}?*", changed)
    lab.page.goto(f"{lab.address}?reset")
    lab.page.wait_for_selector("#sbx-panel", state="attached")
    lab.page.evaluate("jupyterapp.restored.then(() => null)")
    lab.show_panel()


def test_screenshot_of_the_documentation(lab: Lab, theme: str, shots: Path):
    lab.execute("sbx:open-help", page="tiers")
    lab.page.get_by_role("heading", name="What works where").wait_for()
    shoot(lab, shots, f"help-{theme}")


def test_screenshot_of_an_incompatible_engine(lab: Lab, sandbox: str, theme: str, shots: Path):
    connection = {
        "state": "incompatible",
        "message": "the engine has version 2.0.1, this client 1.4.0",
        "remedy": "Run `jupyter sbx stop`; it ends all sandboxes. The next call starts a new engine"
        " (jupyter sbx help upgrade).",
    }
    answer_instead(lab, "info", lambda info: info["connection"].update(connection))
    expect(lab.panel).to_contain_text("has an incompatible version")
    expect(lab.row("workbench")).to_be_visible()
    shoot(lab, shots, f"incompatible-{theme}")


@pytest.mark.usefixtures("no_sandboxes")
def test_screenshot_of_groups_by_owner(lab: Lab, server: JupyterServer, theme: str, shots: Path):
    made = [server.create(name) for name in ("alpha", "beta", "gamma", "delta", "eta", "theta")]

    def own(listed: dict[str, Any]) -> None:
        for at, each in enumerate(listed["sandboxes"]):
            if at % 3:
                each["owner"] = ["", "ada@example.org", "grace.hopper.of.the.navy@example.org"][
                    at % 3
                ]

    answer_instead(lab, "sandboxes", own)
    lab.panel.get_by_label("Groups of the sandboxes").select_option("owner")
    expect(lab.panel.get_by_role("heading", name="Mine")).to_be_visible()
    shoot(lab, shots, f"owners-{theme}")
    for sandbox_id in made:
        server.kill(sandbox_id)


def test_screenshot_of_named_and_watched_terminals(lab: Lab, sandbox: str, theme: str, shots: Path):
    connected = "() => jupyterapp.shell.currentWidget?.connection?.connectionStatus === 'connected'"
    lab.execute("sbx:open-terminal", sandbox=sandbox)
    lab.wait_until(connected)
    lab.execute("sbx:open-terminal", sandbox=sandbox)
    lab.wait_until(connected)
    lab.type_in_terminal("ls -la --color /")
    lab.execute("sbx:rename-terminal", name="build")
    expect(lab.page.locator(".lm-TabBar-tabLabel", has_text="build · workbench")).to_be_visible()
    lab.execute("sbx:watch-terminal")
    lab.wait_until(connected)
    expect(lab.page.get_by_text("2 views").first).to_be_visible()
    shoot(lab, shots, f"terminals-{theme}")


def test_screenshot_of_views_that_ended(
    lab: Lab, sandbox: str, server: JupyterServer, theme: str, shots: Path
):
    lab.execute("sbx:open-metrics", sandbox=sandbox)
    expect(lab.page.locator(".sbx-MetricsChart-value").first).to_contain_text("%")
    lab.execute("sbx:open-terminal", sandbox=sandbox)
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget?.connection?.connectionStatus === 'connected'"
    )
    lab.execute("sbx:open-details", sandbox=sandbox, section="processes")
    expect(lab.page.locator(".sbx-Details-body")).to_contain_text("Limits")
    server.http.post(f"sandboxes/{sandbox}/pause", json={}).raise_for_status()
    expect(lab.page.locator(".sbx-Details-head")).to_contain_text("paused")
    expect(lab.page.get_by_role("button", name="Resume")).to_be_visible()
    shoot(lab, shots, f"paused-{theme}")
    server.kill(sandbox)
    expect(lab.page.locator(".sbx-Details-head")).to_contain_text("has ended")
    lab.page.get_by_role("tab", name="Changes").click()
    shoot(lab, shots, f"ended-details-{theme}")
    lab.page.locator(".lm-TabBar-tab", has_text="Metrics: workbench").click()
    expect(lab.page.locator(".sbx-MetricsWidget .sbx-View-facts")).to_contain_text("has ended")
    lab.page.wait_for_timeout(3000)
    shoot(lab, shots, f"ended-metrics-{theme}")


@pytest.mark.parametrize("contrast", ["theme", "forced"])
def test_screenshot_of_high_contrast(
    lab: Lab, sandbox: str, server: JupyterServer, contrast: str, shots: Path
):
    if contrast == "theme":
        lab.use_theme("Dark High Contrast")
    else:
        lab.page.emulate_media(forced_colors="active", color_scheme="dark")
    server.write(sandbox, "/home/user/.bashrc", b"alias ll='ls -l'\n# mine\n")
    expect(lab.rows.locator(".sbx-Row-chart").first).to_be_visible()
    lab.row("workbench").hover()
    lab.execute("sbx:open-metrics", sandbox=sandbox)
    lab.page.wait_for_timeout(8000)
    shoot(lab, shots, f"contrast-metrics-{contrast}")
    lab.execute("sbx:open-details", sandbox=sandbox, section="changes")
    lab.page.get_by_role("treeitem", name=".bashrc").click()
    expect(lab.page.get_by_role("region", name="Changed lines")).to_be_visible()
    shoot(lab, shots, f"contrast-details-{contrast}")
    lab.page.emulate_media(forced_colors="none", color_scheme="light")
    lab.use_theme("Light")


VIEW = """
from sbx_jupyter import Sandbox, SandboxView
sandbox = Sandbox.connect("{sandbox}")
display(SandboxView(sandbox))
"""


@pytest.mark.usefixtures("no_sandboxes")
def test_screenshot_of_what_the_documentation_shows(
    lab: Lab, server: JupyterServer, theme: str, shots: Path
):
    names = ("workbench", "data-cleaning", "nightly-build", "base-1")
    made = {name: server.create(name) for name in names}
    lab.execute("sbx:refresh")
    expect(lab.rows.locator(".sbx-Row-chart")).to_have_count(4)
    server.http.post(f"sandboxes/{made['nightly-build']}/pause", json={}).raise_for_status()
    expect(lab.row("nightly-build")).to_contain_text("paused")
    lab.row("data-cleaning").hover()
    lab.page.wait_for_timeout(400)
    area = {"x": 0, "y": 0, "width": 640, "height": 420}
    lab.page.screenshot(path=shots / f"panel-{theme}.png", clip=area)  # pyright: ignore[reportArgumentType] - a literal

    server.write(made["workbench"], "/home/user/analysis.py", b"import math\n\nprint(math.tau)\n")
    cell = nbformat.v4.new_code_cell(VIEW.format(sandbox=made["workbench"]))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, server.root / f"analysis-{theme}.ipynb")
    lab.page.evaluate("jupyterapp.shell.collapseLeft()")
    lab.execute("docmanager:open", path=f"analysis-{theme}.ipynb")
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
    )
    run_first_cell(lab)
    lab.page.get_by_role("treeitem", name="analysis.py", exact=True).click()
    lab.page.locator(".sbx-FileEditor").wait_for()
    expect(lab.page.locator(".sbx-MetricsChart-value").first).to_contain_text("%")
    lab.page.wait_for_timeout(6000)
    shoot(lab, shots, f"view-{theme}")
    lab.execute("docmanager:save")
    server.end_kernels()
    lab.reload()
    lab.execute("docmanager:open", path=f"analysis-{theme}.ipynb")
    expect(lab.page.locator(".sbx-Still")).to_contain_text("workbench")
    shoot(lab, shots, f"still-{theme}")
    for sandbox_id in made.values():
        server.kill(sandbox_id)
