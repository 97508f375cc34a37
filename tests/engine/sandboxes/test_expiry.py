"""The timer: on time, changeable, and one for all."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from sbx_jupyter.engine.sandboxes.expiry import Expiry
from tests.waiting import async_until

SOON = 10.0
"""Seconds: far more than a busy machine needs, far less than the longest sleep of the timer."""


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
    began = time.time()
    at = {f"i{n}": began + 0.05 * (1 + n * 7 % 40 / 10) for n in range(40)}
    for sandbox_id, when in at.items():
        expiry.schedule(sandbox_id, when)

    await async_until(lambda: len(fired) == len(at), timeout=SOON)

    assert list(fired) == sorted(at, key=at.__getitem__)
    assert all(fired[sandbox_id] >= at[sandbox_id] - 0.001 for sandbox_id in at)


async def test_an_earlier_time_replaces_a_later_one(expiry: Expiry, fired: Fired):
    expiry.schedule("ia", time.time() + 60)
    await async_until(lambda: not expiry._changed.is_set(), step=0)  # it sleeps until the later
    expiry.schedule("ia", time.time() + 0.05)

    await async_until(lambda: "ia" in fired, timeout=SOON)


async def test_a_later_time_replaces_an_earlier_one(expiry: Expiry, fired: Fired):
    expiry.schedule("ia", time.time() + 0.05)
    expiry.schedule("ia", time.time() + 60)
    expiry.schedule("ib", time.time() + 0.1)

    await async_until(lambda: "ib" in fired, timeout=SOON)

    assert "ia" not in fired


async def test_a_cancelled_sandbox_does_not_expire(expiry: Expiry, fired: Fired):
    expiry.schedule("ia", time.time() + 0.05)
    expiry.schedule("ib", time.time() + 0.1)
    expiry.cancel("ia")

    await async_until(lambda: "ib" in fired, timeout=SOON)

    assert "ia" not in fired


async def test_a_time_in_the_past_expires_at_once(expiry: Expiry, fired: Fired):
    expiry.schedule("ia", time.time() - 100)

    await async_until(lambda: "ia" in fired, timeout=SOON)


async def test_rescheduling_again_and_again_does_not_grow_the_heap(expiry: Expiry, fired: Fired):
    for number in range(5000):
        expiry.schedule("ia", time.time() + 100 + number)

    assert len(expiry._heap) < 100
    assert not fired


async def test_setting_the_clock_back_prolongs_nothing(
    expiry: Expiry, fired: Fired, monkeypatch: pytest.MonkeyPatch
):
    real = time.time
    expiry.schedule("ia", real() + 0.2)

    monkeypatch.setattr("time.time", lambda: real() - 3600)

    await async_until(lambda: "ia" in fired)
    assert not expiry.is_scheduled("ia")
