"""A real fence on this machine, and what it leaves behind."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sbx_jupyter.isolation.fence import Fence
from sbx_jupyter.isolation.tiers import IsolationReport, Tier, detect

from .inside import Inside, sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.known_stock import KnownStock


@pytest.fixture(scope="session", autouse=True)
def search_once(known_stock: KnownStock) -> None:
    """Engines of these tests search only once for what to hide."""


@pytest.fixture(scope="session")
def data_dir() -> Iterator[Path]:
    """One data directory for all tests, so that the stock layer is built once."""
    path = Path(tempfile.mkdtemp(prefix="sbx-isolation-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def report(data_dir: Path) -> IsolationReport:
    """What this machine allows."""
    return detect(data_dir)


@pytest.fixture
async def fence(data_dir: Path, report: IsolationReport) -> AsyncIterator[Fence]:
    """A started fence of the namespace tier."""
    if report.tier != Tier.NAMESPACES:
        pytest.skip(f"needs namespaces: {report.missing}")
    fence = Fence(data_dir, report, report.tier)
    await fence.start()
    yield fence
    await fence.collect(set())
    await fence.stop()


@pytest.fixture
async def box(
    fence: Fence, data_dir: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Inside]:
    """One stock sandbox."""
    name = f"b{abs(hash(request.node.nodeid)) % 10**10}"
    async with sandbox(fence, data_dir, name) as inside:
        yield inside
