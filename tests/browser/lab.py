"""One JupyterLab page, spoken to in its own terms."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from playwright.sync_api import expect

from tests.browser.server import TOKEN
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Error, Locator, Page, Request

    from tests.browser.server import JupyterServer


class Lab:
    """A page with the sandboxes panel open."""

    def __init__(self, page: Page, server: JupyterServer) -> None:
        self.page = page
        self.server = server
        # With a layout of its own: a page that was closed may have one on its way to the server.
        self._workspace = uuid.uuid4().hex
        self.address = f"{server.url}lab/workspaces/{self._workspace}"
        self.errors: list[str] = []
        self.stacks: list[str] = []
        # JupyterLab does not handle the requests of its own that it cancels when a kernel ends.
        self.expected_errors = ["Canceled future for"]
        self.requests: list[str] = []
        page.on("pageerror", self._note_error)
        self._unanswered: list[Request] = []
        page.on("request", self._note)
        page.on("requestfinished", self._note_answer)
        page.on("requestfailed", self._note_answer)

    def _note_error(self, error: Error) -> None:
        if not any(text in str(error) for text in self.expected_errors):
            self.errors.append(str(error))
            self.stacks.append(str(error.stack))

    def open(self) -> None:
        """Start with an empty layout: a restored one would make checks pass on old widgets."""
        self.page.goto(f"{self.address}?token={TOKEN}")
        self._wait_started()
        # JupyterLab opens it a moment after the layout, and gives it the focus.
        self.page.locator(".jp-LauncherCard").first.wait_for()
        self.show_panel()

    def wait_saved(self, widget: str, argument: str = "") -> None:
        """Wait until the saved layout names a widget, and one is to be restored with ``argument``.

        Both are saved a moment after they changed. ``argument`` is a part of the JSON text.
        """
        until(lambda: self._is_saved(widget, argument), message=f"{widget} was not saved")

    def _is_saved(self, widget: str, argument: str) -> bool:
        saved = self.page.request.get(f"{self.server.url}lab/api/workspaces/{self._workspace}")
        data = saved.json()["data"] if saved.ok else {}
        layout = json.dumps(data.get("layout-restorer:data"))
        return widget in layout and argument in json.dumps(data)

    def reload(self) -> None:
        """Load the page again as a user does, layout and all."""
        self.follow(self.address)

    def follow(self, link: str) -> None:
        """Open a link to JupyterLab."""
        self.page.goto(link)
        self._wait_started()

    def show_panel(self) -> None:
        self.page.evaluate("jupyterapp.shell.activateById('sbx-panel')")
        self.panel.get_by_role("heading", name="Sandboxes").wait_for()

    @property
    def panel(self) -> Locator:
        return self.page.locator("#sbx-panel")

    @property
    def rows(self) -> Locator:
        return self.panel.locator(".sbx-Row:not(.sbx-mod-creating)")

    def row(self, name: str) -> Locator:
        return self.rows.filter(has=self.page.get_by_text(name, exact=True))

    def choose(self, name: str, *path: str) -> None:
        """Choose an entry of a sandbox's menu, through its submenus."""
        row = self.row(name)
        row.hover()
        row.get_by_label("More actions").click()
        for label in path:
            entry = self.page.locator(".lm-Menu-itemLabel", has_text=label).last
            entry.hover()
            if label == path[-1]:
                entry.click()

    def execute(self, command: str, **arguments: object) -> None:
        """Run a command; what it gives back stays in the page, since widgets cannot leave it."""
        script = "([command, args]) => jupyterapp.commands.execute(command, args).then(() => null)"
        self.page.evaluate(script, [command, arguments])

    def use_theme(self, name: str) -> None:
        self.execute("apputils:change-theme", theme=f"JupyterLab {name}")
        self.page.wait_for_function(
            "name => document.body.dataset.jpThemeName === `JupyterLab ${name}`", arg=name
        )

    def shoot(self, shots: Path, name: str) -> None:
        """Take a picture in each theme, if pictures are asked for: themes load slowly."""
        if "SBX_PICTURES" not in os.environ:
            return
        for theme in ("Dark", "Light"):
            self.use_theme(theme)
            expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)
            self.page.screenshot(path=shots / f"{name}-{theme.lower()}.png")

    def wait_until(self, expression: str, argument: object = None) -> None:
        self.page.wait_for_function(expression, arg=argument)

    def messages(self) -> str:
        """The texts of open questions and notifications, and the errors of scripts."""
        shown = self.page.locator(".jp-Dialog-content, .Toastify__toast").all_inner_texts()
        return "\n".join([*shown, *self.stacks])

    def type_in_terminal(self, text: str) -> None:
        """Type into the terminal in front; its screen is a canvas, so only effects can be read."""
        self.page.locator(".jp-Terminal:visible .xterm-helper-textarea").focus()
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def _note(self, request: Request) -> None:
        if urlsplit(request.url).scheme in ("http", "https", "ws", "wss"):
            self.requests.append(request.url)
            self._unanswered.append(request)

    def _note_answer(self, request: Request) -> None:
        if request in self._unanswered:
            self._unanswered.remove(request)

    def wait_answered(self, part: str) -> None:
        """Wait until no request waits for an answer whose address has ``part``.

        Several looks must find none: the page may ask on when it has an answer.
        """
        looks: list[bool] = []

        def is_answered() -> bool:
            self.page.wait_for_timeout(100)  # only then it tells of requests
            looks.append(not any(part in request.url for request in self._unanswered))
            return len(looks) >= 5 and all(looks[-5:])

        until(is_answered, message=f"requests of {part} are not answered", step=0)

    def _wait_started(self) -> None:
        self.page.wait_for_selector("#sbx-panel", state="attached")
        self.page.evaluate("jupyterapp.restored.then(() => null)")
