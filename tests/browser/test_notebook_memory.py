"""A notebook remembers its sandbox, and what that displays cannot act in the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat
import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

pytestmark = pytest.mark.long

HOSTILE = """%%sbx
from IPython.display import HTML, Javascript, display
strike = "try { top.struck = true } catch (error) {}; document.title = 'drawn'"
display(HTML(f"<h1>drawn by the sandbox</h1><script>{strike}</script>"), Javascript(strike))
"""

MEMORY = "jupyterapp.shell.currentWidget.content.model.getMetadata('sbx_jupyter')"


def open_notebook(lab: Lab, server: JupyterServer, name: str, sources: list[str], memory: object):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    made.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    if memory is not None:
        made.metadata["sbx_jupyter"] = memory
    nbformat.write(made, server.root / name)
    lab.execute("docmanager:open", path=name)
    lab.wait_until("name => jupyterapp.shell.currentWidget?.context?.path === name", name)
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'",
    )


def remembered(lab: Lab):
    return lab.page.evaluate(
        "() => jupyterapp.shell.currentWidget.content.model.getMetadata('sbx_jupyter')"
    )


def test_a_notebook_gets_its_sandbox_back(
    lab: Lab, server: JupyterServer, sandbox: str, shots: Path
) -> None:
    memory = {"sandbox": sandbox, "template": "code-interpreter-v1", "snapshot": None, "name": ""}
    open_notebook(lab, server, "remembers.ipynb", [HOSTILE, "1"], memory)

    offer = lab.page.locator(".Toastify__toast", has_text="This notebook used the sandbox")
    expect(offer).to_be_visible()
    lab.page.screenshot(path=shots / "notebook-memory.png")
    offer.get_by_role("button", name="Reconnect").click()
    expect(lab.page.get_by_text("The sandbox is in use.")).to_be_visible()
    lab.execute("notebook:run-cell")
    frame = lab.page.locator("iframe.sbx-Frame").first
    expect(frame).to_be_visible()
    drawn = lab.page.frame_locator("iframe.sbx-Frame").first.get_by_role("heading")
    expect(drawn).to_have_text("drawn by the sandbox")
    lab.page.screenshot(path=shots / "notebook-memory-output.png")

    assert lab.page.evaluate("() => window.struck") is None
    assert remembered(lab)["sandbox"] == sandbox


def test_a_notebook_notes_the_sandbox_that_it_uses_and_forgets_it(
    lab: Lab, server: JupyterServer
) -> None:
    cells = ["%load_ext sbx_jupyter\n%sbx create noted", "%sbx kill"]
    open_notebook(lab, server, "notes.ipynb", cells, None)
    assert remembered(lab) is None

    lab.execute("notebook:run-cell")
    lab.wait_until(
        "() => jupyterapp.shell.currentWidget.content.model.getMetadata('sbx_jupyter')?.name"
        " === 'noted'",
    )

    assert set(remembered(lab)) == {"sandbox", "template", "snapshot", "name"}
    lab.execute("notebook:run-all-cells")


def test_an_ended_sandbox_is_restored_made_anew_or_forgotten_and_a_forged_one_not_offered(
    lab: Lab, server: JupyterServer, sandbox: str, shots: Path
) -> None:
    server.write(sandbox, "/home/user/kept.txt", b"kept")
    captured = server.http.post(f"sandboxes/{sandbox}/snapshots", json={}).raise_for_status()
    ended = {
        "sandbox": "i0000000000",
        "template": "code-interpreter-v1",
        "snapshot": captured.json()["snapshotID"],
        "name": "last week",
    }
    open_notebook(lab, server, "ended.ipynb", ["%%sbx bash\ncat /home/user/kept.txt"], ended)
    offer = lab.page.locator(".Toastify__toast", has_text="which has ended")
    expect(offer).to_be_visible()
    for label, count in {"Reconnect": 0, "Create anew": 1, "Forget": 1}.items():
        expect(offer.get_by_role("button", name=label)).to_have_count(count)
    lab.shoot(shots, "recovery")
    offer.get_by_role("button", name="Restore snapshot").click()
    expect(lab.page.get_by_text("The sandbox is in use.")).to_be_visible()
    lab.wait_until(f"{MEMORY}.sandbox !== 'i0000000000'")
    assert remembered(lab)["snapshot"] == ended["snapshot"]

    open_notebook(lab, server, "anew.ipynb", ["1"], ended)
    offer.get_by_role("button", name="Create anew").click()
    lab.wait_until(f"{MEMORY}.sandbox !== 'i0000000000'")
    assert remembered(lab)["snapshot"] is None

    open_notebook(lab, server, "forgotten.ipynb", ["1"], ended)
    offer.get_by_role("button", name="Forget").click()
    lab.wait_until(f"!({MEMORY})")

    forged = {"sandbox": "a\nimport os", "template": "base", "snapshot": None, "name": ""}
    open_notebook(lab, server, "forged.ipynb", ["1"], forged)

    expect(offer).to_have_count(0)
