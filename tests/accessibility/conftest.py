"""The engine, the JupyterLab and the browser of the browser tests."""

from __future__ import annotations

from tests.browser.conftest import (  # noqa: F401 - fixtures
    browser,
    driver,
    lab,
    no_sandboxes,
    notebook,
    pytest_collection_modifyitems,
    pytest_runtest_makereport,
    sandbox,
    server,
    shots,
)
