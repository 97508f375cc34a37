"""The page about tiers has the table that ``make test-tiers`` tries."""

from __future__ import annotations

from tests.tiers.rows import PAGE, ROWS, TIERS, page


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.tiers.rows"


def test_each_reason_is_of_a_tier() -> None:
    assert {kind for row in ROWS for kind in row.lacks} <= set(TIERS)
