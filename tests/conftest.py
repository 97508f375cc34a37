"""What more than one part of the tests stands on: a real engine in a process of its own."""

from __future__ import annotations

import pytest

from tests.engine_process import engine_process

# Runs of their own: Playwright keeps an event loop that other fixtures cannot share, and the tests
# of faults count every process below them.
collect_ignore = ["browser", "faults"]


@pytest.fixture(scope="session")
def shared_engine():
    """One engine for all tests that do not stop it."""
    with engine_process("shared") as running:
        yield running
