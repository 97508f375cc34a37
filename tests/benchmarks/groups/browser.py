"""JupyterLab in a browser: how long its page loads, and a key takes in a terminal and back."""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.contests import OURS, Contestants, Row
from tests.benchmarks.harness import timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tests.benchmarks.harness import EngineClient
    from tests.browser.server import JupyterServer

WITHOUT: Final = "without the extension"
TERMINAL: Final = "a terminal of JupyterLab"
_LOAD_MILLISECONDS: Final = 60_000

_WATCH: Final = """
const Native = WebSocket;
window.WebSocket = class extends Native {
  constructor(...args) {
    super(...args);
    if (args[0].includes('terminal')) {
      this.addEventListener('message', () => {
        if (window.pressed !== null) {
          window.echoed(performance.now() - window.pressed);
          window.pressed = null;
        }
      });
    }
  }
};
window.pressed = null;
document.addEventListener('keydown', () => { window.pressed = performance.now(); }, true);
"""
"""Notes the time from a key to the first message of a terminal after it, without drawing."""
_EXPECT: Final = "() => { window.echo = new Promise(resolve => { window.echoed = resolve; }); }"


def unavailable() -> str:
    """Why this machine has no browser for it; empty if it has one."""
    if importlib.util.find_spec("playwright") is None:
        return "needs playwright"
    from tests.browser.chromium import program

    return "" if Path(program()).exists() else f"needs {program()}"


@contextlib.contextmanager
def _server(engine: EngineClient, *, has_extension: bool = True) -> Iterator[JupyterServer]:
    from tests.browser.server import jupyter_server

    settings = {
        "api_url": engine.url,
        "sandbox_url": engine.url,
        "api_key": engine.environment()["E2B_API_KEY"],
    }
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as folder:
        home = Path(folder)
        with jupyter_server(home, home, settings=settings, has_extension=has_extension) as server:
            yield server


@contextlib.contextmanager
def _browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    from tests.browser.chromium import chromium

    with sync_playwright() as driver, chromium(driver) as browser:
        yield browser


@contextlib.contextmanager
def _loads(engine: EngineClient) -> Iterator[Contestants]:
    with (
        _browser() as browser,
        _server(engine) as ours,
        _server(engine, has_extension=False) as theirs,
        browser.new_page() as our_page,
        browser.new_page() as their_page,
    ):
        yield {
            OURS: lambda: timed(lambda: _load(our_page, ours)),
            WITHOUT: lambda: timed(lambda: _load(their_page, theirs)),
        }


def _load(page: Page, server: JupyterServer) -> None:
    """Load JupyterLab with an empty layout, until it is restored."""
    from tests.browser.server import TOKEN

    page.goto(f"{server.url}lab/workspaces/{uuid.uuid4().hex}?token={TOKEN}")
    page.wait_for_function("() => window.jupyterapp", timeout=_LOAD_MILLISECONDS)
    has_panel = page.evaluate(
        "jupyterapp.restored.then(() => document.querySelector('#sbx-panel') !== null)"
    )
    if has_panel is not server.has_extension:
        raise RuntimeError(f"the page has the extension: {has_panel}")


@contextlib.contextmanager
def _echoes(engine: EngineClient) -> Iterator[Contestants]:
    with (
        _browser() as browser,
        _server(engine) as server,
        engine.sandbox() as sandbox,
        _terminal(browser, server, "sbx:open-terminal", sandbox=sandbox["sandboxID"]) as ours,
        _terminal(browser, server, "terminal:create-new") as theirs,
    ):
        yield {OURS: lambda: _press(ours), TERMINAL: lambda: _press(theirs)}


@contextlib.contextmanager
def _terminal(
    browser: Browser, server: JupyterServer, command: str, **arguments: Any
) -> Iterator[Page]:
    """A page with a terminal in front, in which ``cat`` gives back each key."""
    with browser.new_page() as page:
        page.add_init_script(_WATCH)
        _load(page, server)
        script = "([command, args]) => jupyterapp.commands.execute(command, args).then(() => null)"
        page.evaluate(script, [command, arguments])
        page.locator(".jp-Terminal:visible .xterm-helper-textarea").focus()
        _wait_for_shell(page)
        page.keyboard.type("cat > /dev/null")
        page.keyboard.press("Enter")
        page.wait_for_timeout(1000)
        yield page


def _wait_for_shell(page: Page) -> None:
    """Wait until the shell answers a key, and remove what was typed."""
    page.evaluate(_EXPECT)
    page.keyboard.press("x")
    page.evaluate("() => window.echo")
    page.keyboard.press("Backspace")


def _press(page: Page) -> float:
    """Press a key; the seconds until the terminal's answer has arrived in the page."""
    page.evaluate(_EXPECT)
    page.keyboard.press("x")
    milliseconds: float = page.evaluate("() => window.echo")
    return milliseconds / 1000


ROWS: Final = (
    Row("Load JupyterLab", 15, _loads, warm_up=2, unavailable=unavailable),
    Row("Echo of a key in a terminal tab", 200, _echoes, warm_up=10, unavailable=unavailable),
)
