"""What more than one part of the tests stands on: a real engine in a process of its own."""

from __future__ import annotations

import pytest

from tests.engine_process import engine_process

# Playwright keeps an event loop running that other fixtures cannot share; they run on their own.
collect_ignore = ["browser"]


@pytest.fixture(scope="session")
def shared_engine():
    """One engine for all tests that do not stop it."""
    with engine_process("shared") as running:
        yield running
