"""Fixtures for several folders of tests: a real engine in a separate process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.engine_process import engine_for_clients
from tests.known_stock import KnownStock

if TYPE_CHECKING:
    from collections.abc import Iterator

# These need separate runs of pytest: Playwright keeps an event loop that other fixtures cannot
# share, and the tests of faults count all their child processes. The others are targets of their
# own in the Makefile.
collect_ignore = [
    "accessibility",
    "applications",
    "binder",
    "browser",
    "containers",
    "faults",
    "floods",
    "hub",
    "notebook_tools",
    "programs",
    "release",
    "siege",
    "tiers",
]


# How long an input takes says how busy the machine is, and nothing about what is tested.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.fixture(scope="session")
def shared_engine():
    """A running engine, shared by all tests that do not stop it."""
    with engine_for_clients("shared") as running:
        yield running


@pytest.fixture(scope="session")
def known_stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnownStock]:
    """The engines that tests start in this process search only once for what to hide."""
    known = KnownStock(tmp_path_factory.mktemp("stock"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sbx_jupyter.isolation.fence.start_zygote", known.start_zygote)
        yield known
