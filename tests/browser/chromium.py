"""Starts the browser of the tests."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Playwright


@contextlib.contextmanager
def chromium(driver: Playwright) -> Iterator[Browser]:
    """A Chromium process, which ends with the block. ``CHROMIUM`` names another program."""
    browser = driver.chromium.launch(
        executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
        args=["--no-sandbox", "--disable-dev-shm-usage"],
    )
    try:
        yield browser
    finally:
        browser.close()
