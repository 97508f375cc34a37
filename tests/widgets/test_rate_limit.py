"""Output to a front end without back-pressure is limited, and small output is not delayed."""

from __future__ import annotations

import asyncio
import time

from sbx_jupyter.widgets.rate_limit import RateLimit


async def test_a_burst_goes_at_once():
    limit = RateLimit(rate=1000, burst=10_000)
    turns_of_others: list[bool] = []
    asyncio.get_running_loop().call_soon(turns_of_others.append, True)

    for _ in range(10):
        await limit.spend(1000)

    assert not turns_of_others


async def test_more_than_a_burst_is_slowed_to_the_rate():
    limit = RateLimit(rate=100_000, burst=10_000)
    start = time.monotonic()

    for _ in range(40):
        await limit.spend(1000)

    assert 0.25 < time.monotonic() - start < 5
