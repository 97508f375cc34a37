"""Starts the browser of the tests."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from playwright.sync_api import ViewportSize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page, Playwright, Request

PATIENCE_MS = 60_000
"""For what a page is to show. Nothing is measured by it, and a busy machine takes long."""

SIZE = ViewportSize(width=1300, height=800)

_STORED = "appcache,cookies,file_systems,indexeddb,local_storage,service_workers,cache_storage"
"""What pages keep for later ones: all but the scripts that the browser compiled."""


def program() -> str:
    """The path of the browser; ``CHROMIUM`` names another one."""
    return os.environ.get("CHROMIUM", "/usr/bin/chromium")


def _options() -> dict[str, Any]:
    return {"executable_path": program(), "args": ["--no-sandbox", "--disable-dev-shm-usage"]}


@contextlib.contextmanager
def chromium(driver: Playwright) -> Iterator[Browser]:
    """A Chromium process, which ends with the block."""
    browser = driver.chromium.launch(**_options())
    try:
        yield browser
    finally:
        browser.close()


class Profile:
    """A Chromium for one page after the other, none of which sees what an earlier one stored.

    It keeps the scripts of JupyterLab compiled, which takes more than a third of a page's load.
    """

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        (self._first,) = context.pages
        self._session = context.new_cdp_session(self._first)

    @contextlib.contextmanager
    def new_page(self) -> Iterator[Page]:
        """A page of ``SIZE``; it and all that it opened are closed and forgotten with the block."""
        origins: set[str] = set()

        def note(request: Request) -> None:
            parts = urlsplit(request.url)
            if parts.scheme in ("http", "https"):
                origins.add(f"{parts.scheme}://{parts.netloc}")

        self._context.on("request", note)
        try:
            yield self._context.new_page()
        finally:
            for page in self._context.pages:
                if page is not self._first:
                    page.close()
            self._context.remove_listener("request", note)
            self._forget(origins)

    def _forget(self, origins: set[str]) -> None:
        self._context.clear_cookies()
        self._context.clear_permissions()
        for origin in origins:
            stored = {"origin": origin, "storageTypes": _STORED}
            self._session.send("Storage.clearDataForOrigin", stored)


@contextlib.contextmanager
def chromium_profile(driver: Playwright) -> Iterator[Profile]:
    """A Chromium process with a new profile; both end with the block."""
    with tempfile.TemporaryDirectory(prefix="sbx-chromium-", ignore_cleanup_errors=True) as folder:
        context = driver.chromium.launch_persistent_context(folder, viewport=SIZE, **_options())
        context.set_default_timeout(PATIENCE_MS)
        try:
            yield Profile(context)
        finally:
            context.close()
