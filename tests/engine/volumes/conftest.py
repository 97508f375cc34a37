"""A store in a temporary data directory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sbx_jupyter.engine.state.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store(tmp_path / "engine.db")
    await opened.open()
    yield opened
    await opened.close()
