"""Listings that are kept for the next page: bounded, per client, and never for the first page."""

from __future__ import annotations

import pytest

from sbx_jupyter.server.files import listing_snapshots
from sbx_jupyter.server.files.listing_snapshots import MAX_LISTINGS, ListingSnapshots
from tests.waiting import async_until


@pytest.fixture
def reads(monkeypatch):
    """The folders that were read from sandboxes."""
    found = []

    async def read_entries(runtime, path):
        found.append((runtime, path))
        yield ["a", "b"]
        yield ["c"]

    monkeypatch.setattr(listing_snapshots, "read_entries", read_entries)
    return found


async def every(kept, runtime, path, *, may_be_kept):
    return [
        entry
        async for piece in kept.entries(runtime, path, may_be_kept=may_be_kept)
        for entry in piece
    ]


async def test_the_next_page_of_a_client_reads_nothing_again(reads):
    kept = ListingSnapshots()

    for may_be_kept in (False, True, True, False):
        assert await every(kept, "ann", "/tmp", may_be_kept=may_be_kept) == ["a", "b", "c"]

    assert reads == [("ann", "/tmp")] * 2
    await every(kept, "bob", "/tmp", may_be_kept=True)
    assert reads[-1] == ("bob", "/tmp")
    kept.close()


async def test_few_and_only_small_listings_are_kept(reads, monkeypatch):
    kept = ListingSnapshots()
    for number in range(MAX_LISTINGS + 1):
        await every(kept, "ann", f"/{number}", may_be_kept=False)
    reads.clear()

    await every(kept, "ann", "/1", may_be_kept=True)
    await every(kept, "ann", "/0", may_be_kept=True)
    assert reads == [("ann", "/0")]

    monkeypatch.setattr(listing_snapshots, "MAX_ENTRIES", 2)
    for _ in range(2):
        assert await every(kept, "ann", "/large", may_be_kept=True) == ["a", "b", "c"]
    assert reads[1:] == [("ann", "/large")] * 2
    kept.close()


async def test_a_listing_is_forgotten_after_a_while(reads, monkeypatch):
    monkeypatch.setattr(listing_snapshots, "KEPT_SECONDS", 0.0)
    kept = ListingSnapshots()

    await every(kept, "ann", "/tmp", may_be_kept=False)

    async def is_forgotten():
        return not kept._kept

    await async_until(is_forgotten)
    await every(kept, "ann", "/tmp", may_be_kept=True)
    assert len(reads) == 2
    kept.close()
