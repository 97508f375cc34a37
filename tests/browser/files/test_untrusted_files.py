"""A hostile notebook or page in a sandbox, opened in JupyterLab in every way there is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

# The page and every frame of its own origin tell here; a frame with another origin cannot.
STRIKE = "try { top.struck = (top.struck || []).concat('%s') } catch (error) {}"
NOTEBOOK = "/home/user/work.ipynb"
EXPECTED_ERRORS = (
    # The manager of ipywidgets takes it for granted that a notebook has a session.
    "Cannot read properties of null (reading 'kernel')",
    # A console shows the refusal in a dialog and passes it on.
    "No kernel was started.",
)
MARK = "asked-by-a-drawing"
VEGA = "application/vnd.vega.v5+json"
VEGA_LITE = "application/vnd.vegalite.v5+json"
WIDGET = "e5c1a9f0b7d24c6a8f13579bdf02468a"


def strike(name: str) -> str:
    return STRIKE % name


def outputs() -> list[dict[str, Any]]:
    """One output for each form in which code may come."""
    image = f'<img src=x onerror="{strike("image")}">'
    vector = (
        f'<svg xmlns="http://www.w3.org/2000/svg" onload="{strike("svg")}">'
        f"<script>{strike('svg-script')}</script></svg>"
    )
    link = f"[link](javascript:{strike('link')})"
    data = [
        {"text/html": f"<b>shown</b><script>{strike('html')}</script>{image}"},
        {"text/html": f'<iframe srcdoc="<script>{strike("srcdoc")}</script>"></iframe>'},
        {"application/javascript": strike("javascript")},
        {"image/svg+xml": vector},
        {"text/markdown": f"{link} {image} <script>{strike('md')}</script>"},
        {"text/latex": f"$\\href{{javascript:{strike('latex')}}}{{x}}$ {image}"},
        {"application/vnd.jupyter.widget-view+json": {"model_id": WIDGET, "version_major": 2}},
        {"application/geo+json": {"type": "Point", "coordinates": [0, 0]}},
    ]
    return [{"output_type": "display_data", "metadata": {}, "data": item} for item in data]


def hostile_notebook() -> bytes:
    """Says of itself that it is trusted, and brings a widget with a front end of its own."""
    picture = f'<img src=x onerror="{strike("cell-image")}">'
    esm = f"{strike('widget')}; export default {{ initialize() {{ {strike('initialize')} }} }}"
    state = {
        WIDGET: {
            "model_name": "AnyModel", "model_module": "anywidget",
            "model_module_version": "~0.11.*", "state": {"_esm": esm, "_anywidget_id": "attack"},
        }
    }  # fmt: skip
    cells = [
        {"cell_type": "code", "id": "one", "source": strike("source"), "execution_count": 1,
         "metadata": {"trusted": True}, "outputs": outputs()},
        {"cell_type": "markdown", "id": "two", "metadata": {"trusted": True},
         "source": f"# title\n<script>{strike('cell')}</script>{picture}"},
        {"cell_type": "raw", "id": "three", "metadata": {"trusted": True, "format": "text/html"},
         "source": f"<script>{strike('raw')}</script>"},
    ]  # fmt: skip
    widgets = {
        "application/vnd.jupyter.widget-state+json": {
            "version_major": 2, "version_minor": 0, "state": state,
        }
    }  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {"cells": cells, "metadata": {"widgets": widgets, "kernelspec": kernel, "trusted": True},
         "nbformat": 4, "nbformat_minor": 5}
    ).encode()  # fmt: skip


def drawing(server: JupyterServer) -> dict[str, Any]:
    """A specification of Vega that reads what only a user of the server may read."""
    url = f"{server.url}api/contents?content=1&{MARK}"
    return {
        "$schema": "https://vega.github.io/schema/vega/v5.json", "width": 20, "height": 20,
        "data": [{"name": "files", "url": url, "format": {"type": "json"}}],
    }  # fmt: skip


def drawings(server: JupyterServer) -> bytes:
    """A notebook that says nothing of trust, with outputs that renderers draw without it."""
    lite = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": drawing(server)["data"][0], "mark": "point",
    }  # fmt: skip
    data = [{VEGA: drawing(server)}, {VEGA_LITE: lite}]
    shown = [{"output_type": "display_data", "metadata": {}, "data": item} for item in data]
    cell = {"cell_type": "code", "id": "one", "source": "", "execution_count": 1,
            "metadata": {}, "outputs": shown}  # fmt: skip
    return json.dumps(
        {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    ).encode()


def asked(lab: Lab) -> list[str]:
    """The requests that a drawing sent."""
    lab.page.wait_for_timeout(100)  # only then the page tells of requests
    return [url for url in lab.requests if MARK in url]


@pytest.fixture
def path(lab: Lab, sandbox: str, server: JupyterServer) -> Iterator[str]:
    """Where JupyterLab finds the hostile notebook of the sandbox."""
    server.write(sandbox, NOTEBOOK, hostile_notebook())
    before = kernels(server)
    lab.expected_errors += EXPECTED_ERRORS
    yield f"sbx:{sandbox}{NOTEBOOK}"
    assert kernels(server) == before, "a kernel of the host was started"
    for sandboxed in kernels(server, "sbx-python3"):
        server.http.delete(f"{server.url}api/kernels/{sandboxed}").raise_for_status()


def kernels(server: JupyterServer, name: str = "python3") -> set[str]:
    answer = server.http.get(f"{server.url}api/kernels")
    answer.raise_for_status()
    return {kernel["id"] for kernel in answer.json() if kernel["name"] == name}


def open_document(lab: Lab, path: str, factory: str | None = None) -> None:
    arguments = {"path": path} | ({"factory": factory} if factory else {})
    lab.execute("docmanager:open", **arguments)
    wait_for_document(lab, path)


def wait_for_document(lab: Lab, path: str) -> None:
    lab.wait_until("path => jupyterapp.shell.currentWidget?.context?.path === path", path)
    lab.wait_until("() => jupyterapp.shell.currentWidget.context.isReady")


def expect_no_strike(lab: Lab) -> None:
    """Wait until every output is drawn, then see that nothing ran."""
    shown = lab.page.locator(".jp-RenderedHTMLCommon b", has_text="shown")
    expect(shown).to_be_visible()
    shown.scroll_into_view_if_needed()
    # The handler of a picture runs after the picture failed; one of the page's own comes later.
    lab.page.evaluate(
        """() => {
            window.probed = false;
            const probe = document.createElement('img');
            probe.onerror = () => { window.probed = true; };
            probe.src = 'data:image/png;base64,broken';
            document.body.append(probe);
        }"""
    )
    lab.wait_until("() => window.probed")
    assert lab.page.evaluate("window.struck ?? []") == []


def test_the_attack_works_on_a_trusted_notebook(lab: Lab, server: JupyterServer):
    """Else the other tests would pass on an attack that never could succeed."""
    (server.root / "trusted.ipynb").write_bytes(hostile_notebook())
    open_document(lab, "trusted.ipynb")
    lab.page.evaluate(
        """() => {
            for (const cell of jupyterapp.shell.currentWidget.content.model.cells) {
                cell.trusted = true;
            }
        }"""
    )
    lab.wait_until(
        "() => ['html', 'image', 'javascript'].every(one => (window.struck ?? []).includes(one))"
    )
    lab.execute("kernelmenu:shutdown")
    lab.errors.clear()


def test_nothing_runs_when_a_notebook_is_opened_saved_and_loaded_again(lab: Lab, path: str):
    open_document(lab, path)
    expect_no_strike(lab)

    lab.page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty = true")
    lab.execute("docmanager:save")
    lab.wait_until("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    lab.page.evaluate("jupyterapp.shell.currentWidget.context.revert()")
    expect_no_strike(lab)

    lab.wait_until("() => jupyterapp.shell.currentWidget.context.isReady")
    lab.page.evaluate("jupyterapp.restored")
    lab.reload()
    wait_for_document(lab, path)
    expect_no_strike(lab)


def test_nothing_runs_when_the_address_names_the_notebook(lab: Lab, path: str):
    lab.page.goto(f"{lab.address}/tree/{path}")
    # JupyterLab opens such addresses only for drives that one of its file browsers shows.
    lab.page.locator(".jp-Dialog", has_text="Cannot open").get_by_role("button").click()
    assert lab.page.evaluate("window.struck ?? []") == []


def test_a_saved_notebook_keeps_its_widgets_and_claims_no_trust(
    lab: Lab, path: str, sandbox: str, server: JupyterServer
):
    open_document(lab, path)
    lab.page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty = true")
    lab.execute("docmanager:save")
    lab.wait_until("() => !jupyterapp.shell.currentWidget.context.model.dirty")

    saved = json.loads(server.read(sandbox, NOTEBOOK) or b"{}")
    assert all("trusted" not in cell["metadata"] for cell in saved["cells"])
    assert saved["metadata"]["widgets"] == json.loads(hostile_notebook())["metadata"]["widgets"]


def test_a_kernel_of_the_host_is_attached_after_a_question_only(
    lab: Lab, path: str, sandbox: str, server: JupyterServer, shots: Path
):
    open_document(lab, path)
    kernel = "jupyterapp.shell.currentWidget.sessionContext.session?.kernel"
    lab.wait_until(f"() => {kernel}?.status === 'idle'")
    listed = server.http.get("kernels").raise_for_status().json()["kernels"]
    assert [one["sandboxID"] for one in listed] == [sandbox]
    name = lab.page.locator(".jp-NotebookPanel-toolbar").get_by_text("Python 3 (sandbox)")
    expect(name).to_be_visible()

    lab.page.evaluate("void jupyterapp.commands.execute('notebook:change-kernel')")
    choose = lab.page.locator(".jp-Dialog", has_text="Select Kernel")
    choose.locator("select").select_option(label="Python 3 (ipykernel)")
    choose.get_by_role("button", name="Select Kernel").click()

    question = lab.page.locator(".jp-Dialog", has_text="Run outside the sandbox?")
    expect(question).to_contain_text("workbench")
    expect(question).to_contain_text("your files and your credentials")
    lab.shoot(shots, "kernel-choice")
    question.get_by_role("button", name="Cancel").click()
    expect(lab.page.locator(".jp-Dialog")).to_have_count(0)
    assert lab.page.evaluate(f"{kernel}.name") == "sbx-python3"


def test_a_console_for_a_file_of_a_sandbox_asks_too(
    lab: Lab, path: str, sandbox: str, server: JupyterServer
):
    server.write(sandbox, "/home/user/work.py", b"print(1)\n")
    open_document(lab, f"sbx:{sandbox}/home/user/work.py")
    lab.page.evaluate("void jupyterapp.commands.execute('fileeditor:create-console')")
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Select Kernel").click()
    question = lab.page.locator(".jp-Dialog", has_text="Run outside the sandbox?")
    question.get_by_role("button", name="Cancel").click()
    refusal = lab.page.locator(".jp-Dialog", has_text="No kernel was started")
    refusal.get_by_role("button").last.click()


def test_a_trusted_page_of_a_sandbox_does_not_reach_the_lab(
    lab: Lab, path: str, sandbox: str, server: JupyterServer
):
    page = f"<h1>page</h1><script>{strike('page')}; document.body.append('ran')</script>"
    server.write(sandbox, "/home/user/page.html", page.encode())
    open_document(lab, f"sbx:{sandbox}/home/user/page.html", "HTML Viewer")
    frame = lab.page.frame_locator(".jp-HTMLViewer iframe")
    expect(frame.get_by_role("heading", name="page")).to_be_visible()
    lab.page.get_by_role("button", name="Trust HTML").click()
    expect(frame.locator("body")).to_contain_text("ran")
    assert lab.page.evaluate("window.struck ?? []") == []


@pytest.mark.parametrize("name", ["host.ipynb", "host.vg"])
def test_a_drawing_of_the_host_sends_requests(lab: Lab, server: JupyterServer, name: str):
    """Else the next tests would pass on drawings that never send any."""
    is_notebook = name.endswith(".ipynb")
    content = drawings(server) if is_notebook else json.dumps(drawing(server)).encode()
    (server.root / name).write_bytes(content)
    with lab.page.expect_request(lambda request: MARK in request.url):
        open_document(lab, name)
    if is_notebook:
        lab.execute("kernelmenu:shutdown")
    lab.errors.clear()


def test_a_drawing_in_a_notebook_sends_requests_after_trust_only(
    lab: Lab, path: str, sandbox: str, server: JupyterServer
):
    server.write(sandbox, NOTEBOOK, drawings(server))
    open_document(lab, path)
    outputs = lab.page.locator(".jp-OutputArea-output")
    for number, kind in enumerate((VEGA, VEGA_LITE)):
        expect(outputs.nth(number)).to_contain_text(f"only after Trust Notebook: {kind}")
    lab.page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty = true")
    lab.execute("docmanager:save")
    lab.wait_until("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    saved = json.loads(server.read(sandbox, NOTEBOOK) or b"{}")
    assert saved["cells"][0]["outputs"] == json.loads(drawings(server))["cells"][0]["outputs"]
    assert asked(lab) == []

    lab.page.evaluate("void jupyterapp.commands.execute('notebook:trust')")
    lab.page.get_by_role("button", name="Confirm Trusting").click()
    question = lab.page.locator(".jp-Dialog", has_text="Trust what a sandbox wrote?")
    with lab.page.expect_request(lambda request: MARK in request.url):
        question.get_by_role("button", name="Trust the outputs").click()
    lab.wait_until("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    lab.errors.clear()


@pytest.mark.parametrize("name", ["chart.vg", "chart.vl.json"])
def test_a_drawing_in_a_file_of_a_sandbox_sends_no_request(
    lab: Lab, sandbox: str, server: JupyterServer, name: str
):
    server.write(sandbox, f"/home/user/{name}", json.dumps(drawing(server)).encode())
    path = f"sbx:{sandbox}/home/user/{name}"
    open_document(lab, path)
    shown = lab.page.locator(".jp-FileEditor:visible, .jp-RenderedJSON:visible")
    expect(shown).to_have_count(1)
    viewers = lab.page.evaluate(
        "path => jupyterapp.docRegistry.preferredWidgetFactories(path).map(one => one.name)", path
    )
    assert {"Editor"} <= set(viewers)
    assert not {"Vega5", "Vega-Lite5"} & set(viewers)

    # As a saved layout does, which names the viewer.
    open_document(lab, path, "Vega5" if name.endswith(".vg") else "Vega-Lite5")
    expect(lab.page.locator(".jp-MimeDocument:visible")).to_contain_text("stored in a sandbox")
    assert asked(lab) == []


def test_a_pdf_of_a_sandbox_keeps_its_viewer(lab: Lab, sandbox: str):
    viewer = lab.page.evaluate(
        "path => jupyterapp.docRegistry.defaultWidgetFactory(path).name",
        f"sbx:{sandbox}/home/user/paper.pdf",
    )
    assert viewer == "PDF"
