"""Fixtures for several folders of tests: a real engine in a separate process."""

from __future__ import annotations

import pytest

from tests.engine_process import engine_process

# These need separate runs of pytest: Playwright keeps an event loop that other fixtures cannot
# share, and the tests of faults count all their child processes. Those of programs, of releases, of
# a simulated Binder and the siege of several engines are targets of their own in the Makefile.
collect_ignore = ["binder", "browser", "faults", "programs", "release", "siege"]


@pytest.fixture(scope="session")
def shared_engine():
    """A running engine, shared by all tests that do not stop it."""
    with engine_process("shared") as running:
        yield running
