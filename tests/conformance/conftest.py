"""The unmodified e2b clients, pointed at a real engine."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.conformance.differences import difference_of
from tests.engine_process import TIER

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the failures that ``SBX_TEST_TIER`` brings with it, and no others."""
    for item in items:
        if item.path.is_relative_to(HERE):
            name = f"{item.path.relative_to(HERE)}::{item.name}"
            if (why := difference_of(TIER, name)) is not None:
                item.add_marker(pytest.mark.xfail(reason=why, strict=True))


@pytest.fixture(scope="session")
def e2b_environment(shared_engine):
    """The variables that any client of the interface reads."""
    connection = shared_engine.connection
    return {
        "E2B_API_URL": connection.url,
        "E2B_SANDBOX_URL": connection.url,
        "E2B_API_KEY": connection.api_key,
    }


@pytest.fixture(autouse=True)
def e2b_variables(e2b_environment, monkeypatch):
    for name, value in e2b_environment.items():
        monkeypatch.setenv(name, value)
    yield
    gc.collect()  # what a client left open is found in the test that left it


@pytest.fixture
def sandbox(e2b_variables):
    """A sandbox of the synchronous client."""
    from e2b import Sandbox

    with Sandbox.create(timeout=600) as created:
        yield created
