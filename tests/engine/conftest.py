"""Engines on temporary data directories, with real sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from sbx_jupyter.engine.engine import Engine, EngineConfig
from sbx_jupyter.errors import NotFoundError
from tests.helped import engine_of
from tests.known_stock import KnownStock

MakeEngine = Callable[..., Awaitable[Engine]]

FAST_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
"""Every engine here makes a stock layer of a thousand files: in memory that takes a tenth."""


@pytest.fixture(scope="session", autouse=True)
def search_once(known_stock: KnownStock) -> None:
    """Engines of these tests search only once for what to hide."""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="plat-", dir=FAST_DISK))
    yield path / "data"
    shutil.rmtree(path)


@pytest.fixture
async def make_engine(data_dir: Path) -> AsyncIterator[MakeEngine]:
    """Start an engine; one after the other may use the same data directory."""
    made: list[Engine] = []

    async def make(**config) -> Engine:
        engine = engine_of(EngineConfig(data_dir, **{"pool_size": 0, **config}))
        await engine.start()
        made.append(engine)
        return engine

    yield make
    running = [engine for engine in made if engine._components is not None]
    if not running and data_dir.exists():
        running = [await make()]
    for engine in running:
        await asyncio.gather(*(_kill(engine, row.sandbox_id) for row in engine.sandboxes.rows()))
        await engine.stop(kill_sandboxes=True)


async def _kill(engine: Engine, sandbox_id: str) -> None:
    """Kill a sandbox that may be ending by itself."""
    with contextlib.suppress(NotFoundError):
        await engine.sandboxes.kill(sandbox_id)


@pytest.fixture
async def engine(make_engine: MakeEngine) -> Engine:
    return await make_engine()
