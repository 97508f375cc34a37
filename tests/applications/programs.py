"""Applications with a page, as people write them, and what a person does on it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from playwright.sync_api import expect

from tests.engine_process import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from playwright.sync_api import Page

FOLDER: Final = CHECKOUT / ".applications"
INSTALL_SECONDS: Final = 900
STARTS: Final = 60_000
"""Milliseconds until an application shows its page on a busy machine."""

STREAMLIT: Final = """
import streamlit
streamlit.title("Greets")
if streamlit.button("Press"):
    streamlit.write("It was pressed")
"""

GRADIO: Final = """
import gradio
with gradio.Blocks() as page:
    name = gradio.Textbox(label="Name")
    answer = gradio.Textbox(label="Answer")
    gradio.Button("Press").click(lambda text: f"Hello {text}", name, answer)
page.launch(server_name="127.0.0.1", server_port=8000)
"""

DASH: Final = """
from dash import Dash, Input, Output, callback, dcc, html
app = Dash()
app.layout = html.Div([dcc.Input(id="name", value=""), html.Div(id="answer")])
@callback(Output("answer", "children"), Input("name", "value"))
def greet(name):
    return f"Hello {name}"
app.run(host="127.0.0.1", port=8000)
"""

FASTAPI: Final = """
from fastapi import FastAPI
app = FastAPI(title="Greets")
@app.get("/hello")
def hello(name: str) -> str:
    return f"Hello {name}"
"""

VITE: Final = """
import './style.css';
document.body.textContent = import.meta.hot ? 'It is hot' : 'It is cold';
"""


def press_streamlit(page: Page) -> None:
    page.get_by_role("button", name="Press").click(timeout=STARTS)
    expect(page.get_by_text("It was pressed")).to_be_visible()


def press_gradio(page: Page) -> None:
    page.get_by_label("Name").fill("Ann", timeout=STARTS)
    page.get_by_role("button", name="Press").click()
    expect(page.get_by_label("Answer")).to_have_value("Hello Ann")


def type_in_dash(page: Page) -> None:
    page.locator("#name").fill("Ann", timeout=STARTS)
    expect(page.locator("#answer")).to_have_text("Hello Ann")


def try_fastapi(page: Page) -> None:
    """Send a request from the documentation page."""
    page.locator(".opblock-summary").click(timeout=STARTS)
    page.get_by_role("button", name="Try it out").click()
    page.locator("input[placeholder=name]").fill("Ann")
    page.get_by_role("button", name="Execute").click()
    answer = page.locator(".live-responses-table .response-col_description")
    expect(answer.last).to_contain_text("Hello Ann")


def look_at_vite(page: Page) -> None:
    """The module and its style are loaded, and the page knows of changes."""
    expect(page.locator("body")).to_have_text("It is hot", timeout=STARTS)
    expect(page.locator("body")).to_have_css("color", "rgb(1, 2, 3)")


@dataclass(frozen=True)
class Application:
    """``packages`` and ``files`` go into the sandbox, where ``command`` listens on port 8000."""

    name: str
    packages: tuple[str, ...]
    files: Mapping[str, str]
    command: str
    use: Callable[[Page], None]
    path: str = "/"
    npm: bool = False
    works: frozenset[str] = frozenset({"path", "host"})
    """The modes in which it does what a person expects of it."""


PYTHON: Final = "PYTHONPATH=/home/user/packages HOME=/home/user python3"

APPLICATIONS: Final = (
    Application(
        "streamlit",
        ("streamlit",),
        {"app.py": STREAMLIT},
        f"{PYTHON} -m streamlit run app.py --server.port=8000 --server.address=127.0.0.1"
        " --server.headless=true --browser.gatherUsageStats=false --global.developmentMode=false",
        press_streamlit,
    ),
    Application(
        "gradio",
        ("gradio",),
        {"app.py": GRADIO},
        f"GRADIO_ANALYTICS_ENABLED=False {PYTHON} app.py",
        press_gradio,
        works=frozenset({"host"}),
    ),
    Application(
        "dash",
        ("dash",),
        {"app.py": DASH},
        f"{PYTHON} app.py",
        type_in_dash,
        works=frozenset({"host"}),
    ),
    Application(
        "fastapi",
        ("fastapi", "uvicorn"),
        {"app.py": FASTAPI},
        f"{PYTHON} -m uvicorn app:app --port 8000",
        try_fastapi,
        path="/docs",
        works=frozenset({"host"}),
    ),
    Application(
        "vite",
        ("vite",),
        {
            "index.html": '<script type="module" src="/main.js"></script>',
            "main.js": VITE,
            "style.css": "body { color: rgb(1, 2, 3) }",
        },
        "node packages/node_modules/vite/bin/vite.js --port 8000 --host 127.0.0.1",
        look_at_vite,
        npm=True,
        works=frozenset({"host"}),
    ),
)


def file_of_cdn(url: str) -> Path:
    """A file that a page loads from jsDelivr, out of the npm package that it is in."""
    versioned, _, name = url.partition("/npm/")[2].partition("/")
    package = versioned.partition("@")[0]
    folder = FOLDER / "cdn"
    if not (folder / "node_modules" / package).exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(json.dumps({"private": True}))
        command = ["npm", "install", "--silent", "--no-package-lock", versioned]
        subprocess.run(command, cwd=folder, timeout=INSTALL_SECONDS, check=True)
    return folder / "node_modules" / package / name


def packed(application: Application) -> Path:
    """A tar of the packages, which is made once; raises ``subprocess.CalledProcessError``."""
    folder = FOLDER / application.name
    archive = FOLDER / f"{application.name}.tar"
    if archive.exists():
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    if application.npm:
        (folder / "package.json").write_text(json.dumps({"private": True}))
        command = ["npm", "install", "--silent", "--no-package-lock", *application.packages]
    else:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        command += application.packages
    subprocess.run(command, cwd=folder, timeout=INSTALL_SECONDS, check=True)
    draft = archive.with_suffix(".draft")
    subprocess.run(["tar", "-C", str(folder), "-cf", str(draft), "."], check=True)
    draft.rename(archive)
    return archive
