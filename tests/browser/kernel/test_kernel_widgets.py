"""Widgets of a kernel in a sandbox work, in frames that reach nothing else."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.sandboxed import SandboxedNotebook

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.lab import Lab
    from tests.browser.server import JupyterServer

pytestmark = pytest.mark.long

INTERACT = """
from ipywidgets import interact
@interact(x=(0, 10))
def square(x=3):
    print("the square is", x * x)
"""
BUTTON = """
import ipywidgets as w
button, label, text = w.Button(description="Press", icon="check"), w.Label("not yet"), w.Text()
button.on_click(lambda _: setattr(label, "value", "pressed"))
w.jslink((text, "value"), (label, "value"))
w.VBox([button, label, text, w.FloatProgress(value=4, max=10), w.Dropdown(options=["a", "b"])])
"""


def test_widgets_of_a_sandboxed_kernel_work(lab: Lab, server: JupyterServer, shots: Path) -> None:
    notebook = SandboxedNotebook(lab, server, "interact.ipynb", INTERACT, BUTTON)
    notebook.run(0)
    frame = notebook.frame(0)
    expect(frame.locator(".sbx-Output")).to_have_text("the square is 9\n")
    frame.get_by_role("slider").press("ArrowRight")
    expect(frame.locator(".sbx-Output")).to_have_text("the square is 16\n")

    notebook.run(1)
    frame = notebook.frame(1)
    frame.get_by_role("button", name="Press").click()
    expect(frame.locator(".widget-label").first).to_have_text("pressed")
    lab.shoot(shots, "kernel-widgets")
    notebook.close()


LIBRARIES = {
    "tqdm": (
        "from tqdm.notebook import tqdm\nfor _ in tqdm(range(50)): pass",
        ".widget-html >> text=50/50",
    ),
    "plotly": (
        "import plotly.graph_objects as go\ngo.FigureWidget(go.Bar(y=[2, 1, 3]))",
        ".js-plotly-plot .bars",
    ),
    "ipympl": (
        "%matplotlib widget\nimport matplotlib.pyplot as p\np.plot([1, 3, 2])\np.show()",
        ".jupyter-matplotlib-canvas-container canvas",
    ),
}


def test_widgets_of_libraries_are_drawn(lab: Lab, server: JupyterServer, shots: Path) -> None:
    found = {n: v for n, v in LIBRARIES.items() if importlib.util.find_spec(n) is not None}
    if not found:
        pytest.skip("none of these libraries is installed")
    notebook = SandboxedNotebook(
        lab, server, "libraries.ipynb", *(source for source, _ in found.values())
    )
    for at, (_, drawn) in enumerate(found.values()):
        notebook.run(at)
        expect(notebook.frame(at).locator(drawn).first).to_be_visible()
    lab.shoot(shots, "kernel-widgets-libraries")
    notebook.close()
