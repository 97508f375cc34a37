"""Starts the browser of the tests."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Playwright


def program() -> str:
    """The path of the browser; ``CHROMIUM`` names another one."""
    return os.environ.get("CHROMIUM", "/usr/bin/chromium")


@contextlib.contextmanager
def chromium(driver: Playwright) -> Iterator[Browser]:
    """A Chromium process, which ends with the block."""
    browser = driver.chromium.launch(
        executable_path=program(),
        args=["--no-sandbox", "--disable-dev-shm-usage"],
    )
    try:
        yield browser
    finally:
        browser.close()
