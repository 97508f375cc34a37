"""A Jupyter server for each mode of ports, an engine, and a Chromium."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.chromium import chromium
from tests.browser.server import JupyterServer, jupyter_server
from tests.engine_process import EngineProcess, engine_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

expect.set_options(timeout=60_000)

MODES = {"path": "", "host": "{port}-{id}.localhost"}


@pytest.fixture(scope="session")
def engine() -> Iterator[EngineProcess]:
    with engine_process("applications", "--SbxEngine.default_memory_mb=3072") as running:
        yield running


@pytest.fixture(scope="session")
def servers(engine: EngineProcess) -> Iterator[dict[str, JupyterServer]]:
    """The servers by their mode, on one engine."""
    homes = [Path(tempfile.mkdtemp(prefix="sbx-lab-", dir="/tmp")) for _ in MODES]
    settings = {"data_dir": str(engine.data_dir), "auto_start": False}
    path, host = ({**settings, "port_hosts": hosts} for hosts in MODES.values())
    try:
        with (
            jupyter_server(homes[0], engine.data_dir, settings=path) as first,
            jupyter_server(homes[1], engine.data_dir, settings=host) as second,
        ):
            yield {"path": first, "host": second}
    finally:
        for home in homes:
            shutil.rmtree(home)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver, chromium(driver) as browser:
        yield browser
