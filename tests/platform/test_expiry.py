"""The timer: on time, changeable, and one for all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from sbx_jupyter.engine.sandboxes.expiry import Expiry


class Fired(dict[str, float]):
    def note(self, sandbox_id: str) -> None:
        self[sandbox_id] = time.time()


@pytest.fixture
def fired() -> Fired:
    return Fired()


@pytest.fixture
async def expiry(fired: Fired) -> AsyncIterator[Expiry]:
    expiry = Expiry(fired.note)
    expiry.start()
    yield expiry
    await expiry.stop()


async def test_each_sandbox_expires_at_its_time(expiry: Expiry, fired: Fired):
    at = {f"i{n}": time.time() + 0.05 * (1 + n % 4) for n in range(40)}
    for sandbox_id, when in at.items():
        expiry.schedule(sandbox_id, when)

    await asyncio.sleep(0.4)

    assert set(fired) == set(at)
    assert all(-0.001 <= fired[sandbox_id] - at[sandbox_id] < 0.15 for sandbox_id in at)


async def test_an_earlier_time_replaces_a_later_one(expiry: Expiry, fired: Fired):
    expiry.schedule("ia", time.time() + 60)
    await asyncio.sleep(0.02)
    expiry.schedule("ia", time.time() + 0.05)

    await asyncio.sleep(0.2)

    assert "ia" in fired


async def test_a_later_time_replaces_an_earlier_one(expiry: Expiry, fired: Fired):
    expiry.schedule("ia", time.time() + 0.05)
    expiry.schedule("ia", time.time() + 60)

    await asyncio.sleep(0.2)

    assert not fired


async def test_a_cancelled_sandbox_does_not_expire(expiry: Expiry, fired: Fired):
    expiry.schedule("ia", time.time() + 0.05)
    expiry.cancel("ia")

    await asyncio.sleep(0.15)

    assert not fired


async def test_a_time_in_the_past_expires_at_once(expiry: Expiry, fired: Fired):
    expiry.schedule("ia", time.time() - 100)

    await asyncio.sleep(0.05)

    assert "ia" in fired


async def test_rescheduling_again_and_again_does_not_grow_the_heap(expiry: Expiry, fired: Fired):
    for number in range(5000):
        expiry.schedule("ia", time.time() + 100 + number)

    assert len(expiry._heap) < 100
    assert not fired
