"""How files are read as they were before."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from sbx_jupyter.engine.storage import sandbox_diff
from tests.engine.conftest import MakeEngine
from tests.engine.living import create
from tests.waiting import async_until


async def test_few_threads_look_for_earlier_files(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
):
    engine = await make_engine()
    row = await create(engine)
    may_end = threading.Event()
    begun: list[str] = []

    def read(reader: int, name: str) -> bytes:
        os.close(reader)
        begun.append(name)
        may_end.wait(30)
        return b""

    monkeypatch.setattr(sandbox_diff, "_read_member", read)
    diffs = engine.storage.diffs
    asked = [
        asyncio.create_task(diffs.earlier_file(row.sandbox_id, f"/{number}", None))
        for number in range(6)
    ]
    await async_until(lambda: len(begun) == 2)
    # The other threads of the engine are free.
    await asyncio.to_thread(os.getpid)
    assert len(begun) == 2
    may_end.set()

    assert await asyncio.gather(*asked) == [b""] * 6
